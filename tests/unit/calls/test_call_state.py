"""The error that a client gets for a failed call, of its first attempt or its second."""

from typing import Any, cast

import pytest
from msgspec import structs
from rig.ledger import answered_exchange, route_fields, upstream_attempt

from addon.answers.error import UnreadableAnswerReader
from addon.calls.call_state import Call
from addon.settings.settings import Settings
from addon.text.errors import INTERNAL_ERROR, ErrorAnswer, provider_timed_out, provider_unreachable
from policies.call_stages import Stage
from policies.family import Family
from policies.ledger_row import make_ledger_row

BAD_REQUEST = ErrorAnswer(400, "invalid_request_error", "bad_request", "The client's own fault.")
FIRST, SECOND = provider_unreachable(), provider_timed_out()


def failed_call(**changes: Any) -> Call:
    """Return a call whose second attempt is running."""
    exchange = answered_exchange(Family("chat"), stage=Stage.DISPATCHED)
    exchange = structs.replace(exchange, **route_fields(*exchange.route.targets * 2, made=2))
    call = Call(exchange, cast(Settings, None), failed=upstream_attempt(exchange), first_failure=FIRST)
    for name, value in changes.items():
        setattr(call, name, value)
    return call


def test_of_two_failures_the_client_and_the_ledger_get_the_first() -> None:
    call = failed_call()
    assert call.finish_with_error(SECOND) is FIRST
    assert make_ledger_row(call.exchange, 2.0)["attempts"] == 2
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


def test_the_answer_of_a_call_is_that_of_its_last_attempt_unless_the_client_gets_the_first_ones_error() -> (
    None
):
    call = failed_call()
    assert call.reader is None
    reader = UnreadableAnswerReader(SECOND)
    call.current = upstream_attempt(call.exchange, reader=reader)
    assert call.reader is reader
    call.finish_with_error(SECOND)
    assert call.reader is None


@pytest.mark.parametrize(
    ("status", "failed"), [(None, False), (199, False), (200, True), (299, True), (300, False)]
)
def test_an_error_in_a_success_is_the_providers_whatever_its_status(status: int | None, failed: bool) -> None:
    call = failed_call()
    assert call.has_failed(upstream_attempt(call.exchange, status=status), BAD_REQUEST) is failed
