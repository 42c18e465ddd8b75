"""The error that a client gets for a failed call, of its first attempt or its second."""

from typing import Any, cast

import pytest
from msgspec import structs
from rig.ledger import answered_exchange, route_fields

from addon.calls.call_state import Call
from addon.settings.settings import Settings
from addon.text.errors import INTERNAL_ERROR, ErrorAnswer, provider_timed_out, provider_unreachable
from policies.call_stages import Stage
from policies.family import Family

FIRST, SECOND = provider_unreachable(), provider_timed_out()


def failed_call(**changes: Any) -> Call:
    """Return a call whose second attempt is running."""
    exchange = answered_exchange(Family("chat"), stage=Stage.DISPATCHED)
    exchange = structs.replace(exchange, **route_fields(*exchange.route.targets * 2, made=2))
    call = Call(exchange, cast(Settings, None), first_failure=FIRST)
    for name, value in changes.items():
        setattr(call, name, value)
    return call


def test_of_two_failures_the_client_and_the_ledger_get_the_first() -> None:
    call = failed_call()
    assert call.finish_with_error(SECOND) is FIRST
    assert call.exchange.ledger_row(2.0)["attempts"] == 2
    assert call.exchange.answered_by == 1


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({"first_failure": None}, SECOND),
        ({"is_head_sent": True}, SECOND),
        ({"exchange": failed_call().exchange.answer(502, None)}, INTERNAL_ERROR),
    ],
    ids=[
        "of the only attempt",
        "in a stream that has begun",
        "of the gateway itself, after the settlement",
    ],
)
def test_any_other_failure_is_answered_itself(changes: dict[str, Any], failure: ErrorAnswer) -> None:
    call = failed_call(**changes)
    before = call.exchange
    assert call.finish_with_error(failure) is failure
    assert call.exchange is before
