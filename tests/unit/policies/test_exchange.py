"""The stages of one call from its head to its row. In any order of steps, only an approved attempt is sent."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from pydantic import SecretStr
from rig.metrics import EXCHANGE

from policies.call_stages import MOVES, IllegalMoveError, Stage
from policies.exchange import Exchange, Outcome
from policies.route import Route
from policies.spend import Hold

NEW = Exchange("call-0", datetime(2026, 11, 21, tzinfo=UTC), 0.0)
ENDS = {Stage.SETTLED, Stage.REFUSED, Stage.ABANDONED}

TARGET = EXCHANGE.route.targets[0]
ROUTE = Route((TARGET, replace(TARGET, is_fallback=True)), "pinned")

type Step = Callable[[Exchange], Exchange]


MAKE: Mapping[Stage, Step] = {
    Stage.IDENTIFIED: lambda call: call.identify(EXCHANGE.workspace, EXCHANGE.key),
    Stage.ADMITTED: lambda call: call.admit(),
    Stage.ROUTED: lambda call: call.with_route(ROUTE),
    Stage.HELD: lambda call: call.with_hold(Hold(1, 1)),
    Stage.DISPATCHED: lambda call: call.dispatch(),
    Stage.ANSWERED: lambda call: call.answer(200, None),
    Stage.SETTLED: lambda call: call.settle(Outcome()),
    Stage.REFUSED: lambda call: call.end_unsent(Stage.REFUSED, 400, "bad_request"),
    Stage.ABANDONED: lambda call: call.end_unsent(Stage.ABANDONED, 499, "client_disconnected"),
}
"""The move that leads to a stage."""
held, dispatched = MAKE[Stage.HELD], MAKE[Stage.DISPATCHED]
TO_HOLD = (Stage.IDENTIFIED, Stage.ADMITTED, Stage.ROUTED)
TO_ANSWER = (*TO_HOLD, Stage.HELD, Stage.DISPATCHED)


def through(*stages: Stage) -> Exchange:
    call = NEW
    for stage in stages:
        call = MAKE[stage](call)
    return call


def test_each_attempt_is_sent_after_its_money_is_held_and_the_call_is_settled_once() -> None:
    call = through(*TO_ANSWER, Stage.HELD, Stage.DISPATCHED, Stage.ANSWERED, Stage.SETTLED)
    assert (call.attempts, call.stage) == (2, Stage.SETTLED)
    with pytest.raises(IllegalMoveError, match="settled → settled"):
        MAKE[Stage.SETTLED](call)


def test_a_target_that_is_not_sent_is_no_attempt_and_the_next_needs_its_own_hold() -> None:
    skipped = through(*TO_HOLD, Stage.HELD).skip_held_target()
    with pytest.raises(IllegalMoveError, match="nothing is held"):
        dispatched(skipped)
    sent = dispatched(held(skipped))
    assert (sent.attempts, sent.attempt_ends) == (1, ())


@pytest.mark.parametrize("steps", [TO_HOLD[:count] for count in range(4)], ids=len)
def test_nothing_is_sent_before_money_is_held(steps: tuple[Stage, ...]) -> None:
    with pytest.raises(IllegalMoveError):
        dispatched(through(*steps))
    with pytest.raises(IllegalMoveError):
        dispatched(structs.replace(through(*steps), hold=Hold(1, 1)))


def test_a_second_attempt_is_not_sent_on_the_hold_of_the_first() -> None:
    with pytest.raises(IllegalMoveError, match="nothing is held"):
        dispatched(through(*TO_ANSWER))


@pytest.mark.parametrize(
    ("ask", "since"),
    [
        (lambda call: call.workspace.id, Stage.IDENTIFIED),
        (lambda call: call.key.id, Stage.IDENTIFIED),
        (lambda call: call.route.targets, Stage.ROUTED),
        (lambda call: call.target.model, Stage.ROUTED),
        (lambda call: call.next_target.model, Stage.ROUTED),
    ],
)
def test_a_fact_that_is_not_known_yet_raises(ask: Callable[[Exchange], Any], since: Stage) -> None:
    with pytest.raises(IllegalMoveError, match=f"before it is {since}"):
        ask(NEW)
    assert not any((NEW.workspace, NEW.key, NEW.route, NEW.target, NEW.next_target))


@pytest.mark.parametrize("stage", sorted(MAKE.keys() - {Stage.ROUTED, Stage.HELD, Stage.DISPATCHED}))
@pytest.mark.parametrize("before", Stage)
def test_a_move_that_the_table_does_not_list_raises(before: Stage, stage: Stage) -> None:
    call = structs.replace(EXCHANGE, stage=before)
    if stage in MOVES[before]:
        assert MAKE[stage](call).stage is stage
    else:
        with pytest.raises(IllegalMoveError, match=f"{before} → {stage}"):
            MAKE[stage](call)


@pytest.mark.parametrize("steps", [(), TO_HOLD[:1], TO_ANSWER], ids=len)
def test_a_route_is_chosen_after_the_admission_and_before_an_attempt_is_sent(
    steps: tuple[Stage, ...],
) -> None:
    with pytest.raises(IllegalMoveError, match="no route can be chosen"):
        MAKE[Stage.ROUTED](through(*steps))


def test_each_attempt_has_the_next_target_of_the_route() -> None:
    call = through(*TO_HOLD)
    assert call.target is call.next_target is ROUTE.targets[0]
    first = through(*TO_ANSWER)
    assert (first.target, first.next_target) == ROUTE.targets
    second = dispatched(held(first))
    assert second.target is ROUTE.targets[1]
    assert not second.next_target
    sent = ROUTE.targets[0].with_platform_key(SecretStr("first"), 1)
    assert second.with_answer_of_first(sent).target is sent
    with pytest.raises(IllegalMoveError, match="no other attempt"):
        dispatched(held(second))


@given(st.lists(st.sampled_from([*MAKE]), max_size=30))
def test_no_order_of_moves_sends_an_attempt_without_a_hold_or_after_the_end(tries: list[Stage]) -> None:
    call, made = through(*TO_HOLD), Counter[Stage]()
    for stage in tries:
        before = call
        with suppress(IllegalMoveError):
            call = MAKE[stage](call)
            made[stage] += 1
        assert made[Stage.DISPATCHED] <= made[Stage.HELD]
        assert call.was_sent_upstream == (made[Stage.DISPATCHED] > 0)
        if before.stage in ENDS:
            assert call.stage is before.stage
