"""The ledger row of a call has each fact once, in the ledger's units."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from rig.metrics import EXCHANGE

from policies.call_stages import Stage
from policies.exchange import Exchange
from policies.ledger_row import make_interrupted_row, make_ledger_row
from policies.route import Route
from policies.trace_context import TraceContext, make_span_id

FIRST = EXCHANGE.route.targets[0]
SECOND = replace(FIRST, is_fallback=True)
ROUTE = Route((FIRST, SECOND), "pinned")
TRACE = TraceContext("1" * 32, "2" * 16, 1)


def changed(**facts: Any) -> Exchange:
    return structs.replace(EXCHANGE, **facts)


def test_times_are_milliseconds_since_the_call_began() -> None:
    row = make_ledger_row(changed(started_s=100.0, first_byte_s=102.5), 110.0)
    assert (row["first_byte_ms"], row["duration_ms"]) == (2_500, 10_000)
    assert make_ledger_row(changed(first_byte_s=None), 5.0)["first_byte_ms"] is None


@pytest.mark.parametrize(
    ("target", "first_byte_s", "fallback"),
    [(FIRST, 1.2, 0), (SECOND, 1.2, 1), (SECOND, None, 0), (FIRST, None, 0)],
)
def test_only_an_answer_of_the_fallback_counts_as_fallback(
    target: Any, first_byte_s: float | None, fallback: int
) -> None:
    assert make_ledger_row(changed(target=target, first_byte_s=first_byte_s), 2.0)["fallback"] == fallback


def test_an_interrupted_row_counts_the_attempt_that_is_about_to_be_made_and_costs_nothing() -> None:
    held = changed(
        stage=Stage.HELD, attempts=1, next_target=SECOND, wholesale_nanousd=0, retail_nanousd=0, started_s=7.0
    )
    row = make_interrupted_row(held.with_api("messages"))
    assert (row["attempts"], row["status"], row["error_code"], row["api"]) == (
        2,
        499,
        "interrupted",
        "messages",
    )
    assert (row["retail_nanousd"], row["duration_ms"]) == (0, 0)


def test_after_the_last_attempt_is_skipped_there_is_no_target() -> None:
    held = changed(stage=Stage.ROUTED, route=ROUTE, attempts=0, next_target=FIRST)
    skipped = held.skip_held_target()
    assert skipped.next_target is SECOND
    assert not skipped.skip_held_target().next_target


@pytest.mark.parametrize(
    ("facts", "attempt"),
    [
        ({"trace": TRACE, "attempts": 2}, 2),
        ({"trace": TRACE, "attempts": 2, "answered_by": 1}, 1),
        ({"trace": None, "attempts": 2}, None),
        ({"trace": TRACE, "attempts": 0, "stage": Stage.REFUSED}, None),
    ],
)
def test_the_span_is_that_of_the_attempt_that_answered(facts: dict[str, Any], attempt: int | None) -> None:
    assert changed(**facts).span_id == (attempt and make_span_id("call-0", attempt))


def test_ids_of_the_client_are_kept() -> None:
    call = EXCHANGE.with_client_ids(TRACE, "mine-1")
    assert (call.trace, make_ledger_row(call, 2.0)["client_request_id"]) == (TRACE, "mine-1")
