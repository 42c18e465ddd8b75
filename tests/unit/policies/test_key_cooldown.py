"""The cooldown of a key and the choice of the next key, as tables and as properties of any answers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.key_cooldown import (
    COOLDOWN_S,
    MAX_RETRY_AFTER_S,
    MIN_RETRY_AFTER_S,
    READY,
    Cooldown,
    after_answer,
    choose_index,
)

# Cooldowns in a row: each answer is to a call that was sent after the cooldown before it had ended.
# Each is a status, or a 429 with the seconds of its Retry-After.
IN_A_ROW: dict[str, tuple[list[int | tuple[int, float]], list[float]]] = {
    "401 doubles up to ten minutes": ([401] * 6, [60, 120, 240, 480, 600, 600]),
    "429 that says nothing doubles up to a minute": ([429] * 6, [5, 10, 20, 40, 60, 60]),
    "429 says how long": ([(429, 7), (429, 7), (429, 2.5)], [7, 7, 2.5]),
    "429 asks for too little or too much": ([(429, 0), (429, -9), (429, 601), (429, math.inf)], [1, 1, 600, 600]),
    "429 that says how long counts for one that does not": ([429, (429, 2), 429], [5, 2, 20]),
    "a 401 has no Retry-After": ([(401, 7)], [60]),
    "another status begins at the first length": ([401, 401, 429, 429, 401], [60, 120, 5, 10, 60]),
    "a success makes it fresh": ([401, 401, 200, 401, 429, 304, 429], [60, 120, 0, 60, 5, 0, 5]),
    "what says nothing about the key": ([401, 500, 403, 400, 404, 402, 503, 401], [60, 0, 0, 0, 0, 0, 0, 120]),
}  # fmt: skip


@pytest.mark.parametrize("case", IN_A_ROW)
def test_how_long_a_key_rests(case: str) -> None:
    answers, lengths_s = IN_A_ROW[case]
    rest, now_s, found = READY, 100.0, []
    for answer in answers:
        status, retry_after_s = answer if isinstance(answer, tuple) else (answer, None)
        rest = after_answer(rest, now_s, status, retry_after_s)
        found.append(max(rest.until_s - now_s, 0))
        now_s = max(rest.until_s, now_s)
        assert not rest.is_active(now_s)
    assert found == lengths_s


# The status that a cooldown is for, an answer some seconds after it began, and when the cooldown ends then.
RESTING = [
    (401, 0, 401, None, 60),
    (401, 59, 401, None, 60),
    (401, 59, 429, None, 64),
    (401, 30, 429, None, 60),
    (401, 30, 429, 40, 70),
    (429, 4, 429, None, 5),
    (429, 4, 429, 1, 5),
    (429, 4, 429, 9, 13),
    (429, 4, 401, None, 64),
    (429, 4, 500, None, 5),
]


@pytest.mark.parametrize(("first", "after_s", "then", "retry_after_s", "ends_s"), RESTING)
def test_a_failure_while_a_key_rests_belongs_to_that_rest_unless_it_asks_for_a_longer_one(
    first: int, after_s: float, then: int, retry_after_s: float | None, ends_s: float
) -> None:
    rest = after_answer(READY, 0, first)
    again = after_answer(rest, after_s, then, retry_after_s)
    assert (again.until_s, again.times) == (ends_s, 1)


def test_a_call_from_before_the_rest_does_not_double_it_even_if_it_fails_late() -> None:
    rest = after_answer(after_answer(READY, 0, 401), 60, 401)
    late = after_answer(rest, 200, 401, was_sent_before=True)
    assert late == Cooldown(320, 401, times=2)
    assert after_answer(late, 320, 401) == Cooldown(560, 401, times=3)


def test_a_success_ends_a_rest_at_once_unless_its_call_was_sent_before() -> None:
    rest = after_answer(READY, 0, 429, 600)
    assert after_answer(rest, 1, 200) == READY
    assert after_answer(rest, 1, 200, was_sent_before=True) == rest


ANSWERS = st.tuples(
    st.floats(0, 1000),
    st.sampled_from([200, 400, 401, 429, 500]),
    st.none() | st.floats(allow_nan=False),
    st.booleans(),
)


@given(answers=st.lists(ANSWERS, max_size=60))
def test_every_rest_is_within_its_bounds_and_only_a_success_ends_it_early(
    answers: list[tuple[float, int, float | None, bool]],
) -> None:
    rest, now_s = READY, 0.0
    for waited_s, status, retry_after_s, was_sent_before in answers:
        now_s += waited_s
        before, rest = rest, after_answer(rest, now_s, status, retry_after_s, was_sent_before=was_sent_before)
        if status < 400:
            assert rest == (before if was_sent_before else READY)
            continue
        assert rest.until_s >= before.until_s
        if rest != before:
            assert status in COOLDOWN_S
            assert rest.until_s - now_s >= MIN_RETRY_AFTER_S - 1e-6
            assert rest.until_s - now_s <= MAX_RETRY_AFTER_S + 1e-6


@given(times=st.integers(1, 10_000), status=st.sampled_from(sorted(COOLDOWN_S)))
def test_a_key_that_is_always_rejected_is_always_tried_again(times: int, status: int) -> None:
    longest_s = COOLDOWN_S[status][1]
    assert after_answer(Cooldown(0, status, times), 1, status).until_s <= 1 + longest_s


# The key of a call.

KEYS = st.lists(st.tuples(st.floats(-100, 100), st.floats(0, 100)), min_size=1, max_size=8)


@given(keys=KEYS)
def test_the_nearest_key_that_is_ready_is_taken_and_else_the_one_that_is_ready_first(
    keys: list[tuple[float, float]],
) -> None:
    until_s, distances = [end_s for end_s, _ in keys], [(False, far) for _, far in keys]
    taken = choose_index(until_s, distances, now_s=0)
    ready = [at for at, end_s in enumerate(until_s) if end_s <= 0]
    if ready:
        assert taken in ready
        assert distances[taken] == min(distances[at] for at in ready)
    else:
        assert until_s[taken] == min(until_s)


def test_of_keys_that_rest_equally_long_the_nearest_is_taken() -> None:
    assert choose_index([9.0] * 3, [(False, 2.0), (False, 1.0), (False, 3.0)], now_s=0) == 1
