"""The order of the fastest place, as calls of one process find it: slow, failing and recovered places."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from rig.routed_calls import MODELS, PLATFORM

from addon.upstream.place_speeds import PlaceSpeeds
from policies.place_order import order_targets
from policies.route import Target


class Minutes:
    """A clock that the test moves."""

    now_s = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def now(self) -> datetime:
        return datetime.now(UTC)


@pytest.fixture
def clock() -> Minutes:
    return Minutes()


def place(name: str, weight: int = 1) -> Target:
    model = replace(MODELS["gpt"], upstream_model_id=name, order="fastest", weight=weight, has_siblings=True)
    return Target(model, "payg", PLATFORM)


TARGETS = [place("a"), place("b"), place("last", weight=0)]


class Calls:
    """Calls that are each sent to the place that is first for them."""

    def __init__(self, clock: Minutes) -> None:
        self.clock, self.speeds = clock, PlaceSpeeds(clock)
        self.first_byte_s = {"a": 1.0, "b": 0.2, "last": 0.0}

    def send(self, count: int, every_s: float = 0.1) -> str:
        """Return the places of so many calls."""
        sent = []
        for _ in range(count):
            measures = {"fastest": self.speeds.make_measure(TARGETS[0], stream=True)}
            [first, *_] = order_targets(TARGETS, b"x" * 16, measures)
            name = first.model.upstream_model_id
            self.clock.now_s += every_s
            self.speeds.note_attempt(first, stream=True, first_byte_s=self.first_byte_s[name])
            sent.append(name)
        return "".join(sent)


def test_each_place_is_tried_and_then_the_fastest_serves(clock: Minutes) -> None:
    calls = Calls(clock)
    assert set(calls.send(2)) == {"a", "b"}
    assert calls.send(20) == "b" * 20


def test_a_place_that_has_not_answered_yet_gets_one_call_and_not_all(clock: Minutes) -> None:
    calls = Calls(clock)
    calls.speeds.note_attempt(TARGETS[1], stream=True, first_byte_s=0.3)
    chosen = []
    for _ in range(20):
        measures = {"fastest": calls.speeds.make_measure(TARGETS[0], stream=True)}
        chosen.append(order_targets(TARGETS, b"x" * 16, measures)[0].model.upstream_model_id)
    assert chosen == ["a"] + ["b"] * 19


def test_a_place_that_fails_is_left_and_found_within_thirty_seconds_of_its_recovery(clock: Minutes) -> None:
    calls = Calls(clock)
    calls.send(50)
    calls.first_byte_s["b"] = math.inf
    assert calls.send(100).count("b") < 50
    assert calls.send(50).count("b") <= 1
    calls.first_byte_s["b"] = 0.2
    calls.send(300)
    assert calls.send(20) == "b" * 20


def test_a_place_without_weight_is_never_tried(clock: Minutes) -> None:
    assert "last" not in Calls(clock).send(300)


def test_a_place_of_a_fallback_is_tried_by_calls_that_begin_there_alone(clock: Minutes) -> None:
    speeds = PlaceSpeeds(clock)
    other = Target(replace(MODELS["llama"], order="first"), "payg", PLATFORM)
    measured = speeds.make_measure(other, stream=True)
    assert [measured(target) for target in TARGETS] == [math.inf] * 3
    measured = speeds.make_measure(TARGETS[0], stream=True)
    assert [measured(target) for target in TARGETS] == [-1.0, math.inf, math.inf]
