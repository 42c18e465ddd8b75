"""The stages of one call from its head to its row. In any order of steps, only an approved attempt is sent."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.metrics import EXCHANGE

from policies.exchange import Exchange, IllegalMoveError, Stage
from policies.model import Route
from policies.spend import Hold

NEW = Exchange("call-0", datetime(2026, 11, 21, tzinfo=UTC), 0.0)
ENDS = {Stage.SETTLED, Stage.REFUSED, Stage.ABANDONED}

TARGET = EXCHANGE.route.targets[0]
ROUTE = Route((TARGET, replace(TARGET, is_fallback=True)), "pinned")

type Step = Callable[[Exchange], Exchange]


def routed(call: Exchange) -> Exchange:
    return call.with_route(ROUTE)


def held(call: Exchange) -> Exchange:
    return call.with_hold(Hold(1, 1))


def dispatched(call: Exchange) -> Exchange:
    return call.dispatch()


TO_HOLD: tuple[Stage | Step, ...] = (Stage.IDENTIFIED, Stage.ADMITTED, routed)


def through(*steps: Stage | Step) -> Exchange:
    call = NEW
    for step in steps:
        call = call.advance(step) if isinstance(step, Stage) else step(call)
    return call


def test_each_attempt_is_sent_after_its_money_is_held_and_the_call_is_settled_once() -> None:
    call = through(*TO_HOLD, held, dispatched, held, dispatched, Stage.ANSWERED, Stage.SETTLED)
    assert (call.attempts, call.stage) == (2, Stage.SETTLED)
    with pytest.raises(IllegalMoveError, match="settled → settled"):
        call.advance(Stage.SETTLED)


def test_a_skipped_attempt_counts_and_the_next_needs_its_own_hold() -> None:
    counted = through(*TO_HOLD, held).skip_attempt()
    with pytest.raises(IllegalMoveError, match="nothing is held"):
        dispatched(counted)
    assert dispatched(held(counted)).attempts == 2


@pytest.mark.parametrize("steps", [TO_HOLD[:count] for count in range(4)], ids=len)
def test_nothing_is_sent_before_money_is_held(steps: tuple[Stage | Step, ...]) -> None:
    with pytest.raises(IllegalMoveError):
        dispatched(through(*steps))
    with pytest.raises(IllegalMoveError):
        dispatched(through(*steps).with_fields(hold=Hold(1, 1)))


def test_a_second_attempt_is_not_sent_on_the_hold_of_the_first() -> None:
    with pytest.raises(IllegalMoveError, match="nothing is held"):
        dispatched(through(*TO_HOLD, held, dispatched))


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


@pytest.mark.parametrize("stage", [Stage.ROUTED, Stage.HELD, Stage.DISPATCHED])
def test_a_stage_that_needs_a_route_or_a_hold_is_not_reached_without_it(stage: Stage) -> None:
    for reached in range(6):
        with pytest.raises(IllegalMoveError):
            through(*(*TO_HOLD, held, dispatched)[:reached]).advance(stage)


@pytest.mark.parametrize("steps", [(), TO_HOLD[:1], (*TO_HOLD, held, dispatched)], ids=len)
def test_a_route_is_chosen_after_the_admission_and_before_an_attempt_is_sent(
    steps: tuple[Stage | Step, ...],
) -> None:
    with pytest.raises(IllegalMoveError, match="no route can be chosen"):
        routed(through(*steps))


def test_each_attempt_has_the_next_target_of_the_route() -> None:
    call = through(*TO_HOLD)
    assert call.target is call.next_target is ROUTE.targets[0]
    first = through(*TO_HOLD, held, dispatched)
    assert (first.target, first.next_target) == ROUTE.targets
    second = dispatched(held(first))
    assert second.target is ROUTE.targets[1]
    assert not second.next_target
    assert second.with_answer_of_first().target is ROUTE.targets[0]
    with pytest.raises(IllegalMoveError, match="no other attempt"):
        dispatched(held(second))


@given(st.lists(st.sampled_from([*Stage, "held", "dispatched"]), max_size=30))
def test_no_order_of_steps_sends_an_attempt_without_a_hold_or_after_the_end(
    tries: list[Stage | str],
) -> None:
    call, holds, sent = through(*TO_HOLD), 0, 0
    for step in tries:
        before = call
        with suppress(IllegalMoveError):
            if step == "held":
                call, holds = held(call), holds + 1
            elif step == "dispatched":
                call, sent = dispatched(call), sent + 1
            elif isinstance(step, Stage) and step is not Stage.DISPATCHED:
                call = call.advance(step)
        assert sent <= holds
        assert call.was_sent_upstream == (sent > 0)
        if before.stage in ENDS:
            assert call.stage is before.stage
