"""How fast a place is of late, and when a call tries it."""

import math

from policies.place_speed import (
    EXPLORE_S,
    MAX_AGE_S,
    MAX_ATTEMPTS,
    PlaceSpeed,
    after_attempt,
    after_choice,
)

NEW = PlaceSpeed()


def after(*attempts: tuple[float, float]) -> PlaceSpeed:
    speed = NEW
    for now_s, first_byte_s in attempts:
        speed = after_attempt(speed, now_s, first_byte_s)
    return speed


def test_the_median_of_the_last_attempts_counts_and_a_failure_is_without_end() -> None:
    speed = after((1, 0.3), (2, 9.0), (3, 0.5))
    assert speed.measure_s(3) == 0.5
    assert after((1, 0.3), (2, math.inf), (3, math.inf)).measure_s(3) == math.inf
    assert len(after(*[(at, 1.0) for at in range(100)]).attempts) == MAX_ATTEMPTS


def test_a_place_that_nobody_called_is_due_and_claimed_by_one_call() -> None:
    assert NEW.is_due(0)
    chosen = after_choice(NEW, 0)
    assert not chosen.is_due(EXPLORE_S - 0.1)
    assert chosen.is_due(EXPLORE_S)


def test_after_a_gap_a_place_is_measured_anew() -> None:
    failing = after(*[(at / 10, math.inf) for at in range(30)])
    assert failing.measure_s(3) == math.inf
    assert after_attempt(failing, 2.9 + EXPLORE_S, 0.2).measure_s(20) == 0.2


def test_old_attempts_say_nothing() -> None:
    assert after((0, 5.0)).measure_s(MAX_AGE_S + 1) == math.inf
