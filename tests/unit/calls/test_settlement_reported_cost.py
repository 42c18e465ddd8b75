"""The cost that a provider reports: kept up to ten times what may be charged for the call, and left out above."""

from dataclasses import replace
from typing import Any, cast

import pytest
from msgspec import structs
from rig.ledger import answered_exchange, upstream_attempt

from addon.answers.context import AnswerContext
from addon.apis.chat.request import parse_chat_request
from addon.calls.call_state import Call
from addon.calls.settlement import read_plausible_usage
from addon.dialects import openai
from addon.settings.settings import Settings
from policies.family import Family
from policies.plausible_usage import FACTOR
from policies.prices import Prices
from policies.spend import Hold

PLAIN = Family("plain")
HELD_NANOUSD, CAP_TOKENS, CHOICES = 1_000, 10, 2
RETAIL = Prices(1_000_000, 1_000_000, 1_000_000)  # 1,000 nanodollars for each token.
CAPPED_NANOUSD = CHOICES * CAP_TOKENS * 1_000


def read(
    reported_nanousd: int, *, is_protected: bool = True, **changes: Any
) -> tuple[int | None, tuple[str, ...]]:
    """Return the reported cost that is kept of a stream, and which counts of it are implausible."""
    plain = answered_exchange(PLAIN, hold=Hold(HELD_NANOUSD, CAP_TOKENS))
    model = replace(plain.target.model, cost="reported", retail=RETAIL)
    target = replace(plain.target, model=model, mode=changes.pop("mode", "payg"))
    workspace = replace(plain.workspace, overage_protection=is_protected)
    exchange = structs.replace(plain, target=target, workspace=workspace, **changes)
    relay = openai.stream(AnswerContext("slug", PLAIN))
    usage = b'{"prompt_tokens":9,"completion_tokens":7,"cost":%.9f}' % (reported_nanousd / 10**9)
    relay.feed(b'data: {"choices":[],"usage":%b}\n\n' % usage)
    request = parse_chat_request(b'{"messages":[{"role":"user","content":"hello"}],"n":%d}' % CHOICES)
    call = Call(exchange, cast(Settings, None), request, upstream_attempt(exchange, reader=relay))
    kept, names = read_plausible_usage(call, relay)
    assert (kept.prompt_tokens, kept.completion_tokens) == (9, 7)
    return kept.reported_nanousd, names


@pytest.mark.parametrize(
    ("is_protected", "most_nanousd"),
    [(True, FACTOR * HELD_NANOUSD), (False, FACTOR * (HELD_NANOUSD + CAPPED_NANOUSD))],
    ids=["all is held", "only the prompt is held"],
)
def test_a_reported_cost_is_plausible_up_to_ten_times_what_a_call_may_cost(
    is_protected: bool, most_nanousd: int
) -> None:
    assert read(most_nanousd, is_protected=is_protected) == (most_nanousd, ())
    assert read(most_nanousd + 1, is_protected=is_protected) == (None, ("reported_nanousd",))


def test_a_reported_cost_of_a_call_without_a_hold_is_not_charged() -> None:
    assert read(1, hold=None) == (None, ("reported_nanousd",))


def test_a_reported_cost_that_is_not_charged_may_be_any() -> None:
    assert read(10**9, mode="byok") == (10**9, ())
