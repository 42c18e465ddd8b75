"""The bucket of tokens a minute: exact, never too generous in any span of time, and nothing stays in it for ever."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.token_rate import (
    MAX_TPM,
    MAX_WINDOWS,
    WINDOW_MS,
    Bucket,
    Take,
    drain,
    find_wait_ms,
    settle,
    take,
)

START_MS = 10**9


@dataclass
class Call:
    """A call that was let in, and what it used once it has ended."""

    at_ms: int
    taken: Take
    used: int | None = None


class Played:
    """A bucket through many calls, with all that happened."""

    def __init__(self, tpm: int) -> None:
        self.tpm, self.bucket, self.now_ms = tpm, Bucket(), START_MS
        self.calls: list[Call] = []

    def drained(self) -> Bucket:
        return drain(self.bucket, self.tpm, self.now_ms)

    def pass_ms(self, pause_ms: int) -> None:
        self.now_ms += pause_ms

    def ask(self, tokens: int) -> int:
        """Take tokens and return 0, or return the wait."""
        drained = self.drained()
        wait_ms = find_wait_ms(drained, self.tpm, tokens)
        if not wait_ms:
            self.bucket, taken = take(drained, tokens)
            self.calls.append(Call(self.now_ms, taken))
        return wait_ms

    def end(self, call: Call, used: int) -> None:
        self.bucket = settle(self.drained(), self.tpm, call.taken, used)
        call.used = used

    def in_flight(self) -> list[Call]:
        return [call for call in self.calls if call.used is None]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.sampled_from([0, 1, 7, 1_000, 20_000, 59_999, 60_000, 150_000])),
        st.tuples(st.just("ask"), st.integers(0, 130)),
        st.tuples(st.just("ask"), st.integers(0, 130)),
        st.tuples(
            st.just("end"), st.tuples(st.integers(0, 10**6), st.sampled_from([0, 1, 50, 100, 130, 500]))
        ),
    ),
    max_size=60,
)


def play(tpm: int, events: Sequence[tuple[str, object]]) -> Played:
    played = Played(tpm)
    for kind, value in events:
        match kind, value:
            case "wait", int(pause_ms):
                played.pass_ms(pause_ms)
            case "ask", int(percent):
                played.ask(min(tpm, tpm * percent // 100))
            case "end", (int(which), int(percent)):
                if flying := played.in_flight():
                    call = flying[which % len(flying)]
                    played.end(call, call.taken.tokens * percent // 100)
    return played


@given(tpm=st.sampled_from([1, 7, 100, 60_000, MAX_TPM]), events=steps)
def test_no_span_of_time_has_more_than_a_full_bucket_and_what_drains_in_it(
    tpm: int, events: list[tuple[str, object]]
) -> None:
    """What calls used beyond what they took, which only calls in flight can do, is the only surplus."""
    calls = play(tpm, events).calls
    counted = [
        min(call.taken.tokens if call.used is None else call.used, call.taken.tokens) for call in calls
    ]
    sums = [0, *accumulate(counted)]
    for first in range(len(calls)):
        for last in range(first, len(calls)):
            span_ms = calls[last].at_ms - calls[first].at_ms
            assert (sums[last + 1] - sums[first]) * WINDOW_MS <= tpm * (WINDOW_MS + span_ms)


@given(tpm=st.sampled_from([1, 7, 100, MAX_TPM]), events=steps)
def test_what_is_in_the_bucket_is_never_less_than_what_can_be_given_back(
    tpm: int, events: list[tuple[str, object]]
) -> None:
    played = play(tpm, events)
    drained = played.drained()
    left = sum(drained.level - settle(drained, tpm, call.taken, 0).level for call in played.in_flight())
    assert 0 <= left <= drained.level


@given(tpm=st.sampled_from([1, 7, 100, 60_000, MAX_TPM]), events=steps, tokens=st.integers(0, 100))
def test_a_wait_is_exact(tpm: int, events: list[tuple[str, object]], tokens: int) -> None:
    played = play(tpm, events)
    asked = tpm * tokens // 100
    wait_ms = played.ask(asked)
    if wait_ms:
        played.pass_ms(wait_ms - 1)
        assert played.ask(asked) == 1
        played.pass_ms(1)
        assert played.ask(asked) == 0


@given(tpm=st.sampled_from([1, 100, MAX_TPM]), events=steps)
def test_nothing_stays_for_ever(tpm: int, events: list[tuple[str, object]]) -> None:
    """Even if no call ends, the bucket is empty once its level has drained, and a line that ended begins anew."""
    played = play(tpm, events)
    played.pass_ms(MAX_WINDOWS * WINDOW_MS)
    assert played.drained() == Bucket(0, 0, played.now_ms)


@given(tpm=st.integers(1, MAX_TPM), percent=st.integers(0, 100), used=st.integers(0, 10**6))
def test_a_call_that_ends_at_once_leaves_what_it_used(tpm: int, percent: int, used: int) -> None:
    played = Played(tpm)
    played.ask(tpm * percent // 100)
    played.end(played.calls[0], used)
    assert played.bucket.level == min(used, MAX_WINDOWS * tpm) * WINDOW_MS


def test_a_debt_lets_the_next_call_wait_and_is_bounded_by_an_hour() -> None:
    played = Played(100)
    played.ask(10)
    played.end(played.calls[0], 250)
    assert played.ask(50) == 2 * WINDOW_MS
    played.ask(0)
    assert played.pass_ms(3 * WINDOW_MS) is None
    played.ask(1)
    played.end(played.calls[-1], 10**9)
    assert played.ask(100) == MAX_WINDOWS * WINDOW_MS


def test_what_has_drained_is_not_given_back_a_second_time() -> None:
    """A call of more than a minute has made its room by time, and the next call has taken it."""
    played = Played(60)
    played.ask(60)
    played.pass_ms(59_000)
    assert played.ask(59) == 0
    played.end(played.calls[0], 0)
    assert played.drained().level == 59 * WINDOW_MS
    assert played.ask(1) == 0
    assert played.ask(1) > 0


def test_a_call_of_a_bucket_that_was_forgotten_gives_nothing_back() -> None:
    played = Played(60)
    played.ask(60)
    played.bucket = Bucket()
    played.ask(30)
    played.end(played.calls[0], 0)
    assert played.drained().level == 30 * WINDOW_MS


def test_while_the_clock_is_behind_nothing_drains() -> None:
    played = Played(60)
    played.ask(60)
    played.pass_ms(-(10**6))
    assert played.ask(30) == 30_000
    played.bucket = played.drained()
    played.pass_ms(30_000)
    assert played.ask(30) == 0


def test_a_new_limit_drains_at_its_own_pace() -> None:
    played = Played(60)
    played.ask(60)
    played.tpm = 600
    assert played.ask(600) == 6_000
    played.tpm = 30
    assert played.ask(30) == 2 * WINDOW_MS


def test_a_debt_of_more_than_a_minute_outlasts_it() -> None:
    played = Played(60)
    played.ask(0)
    played.end(played.calls[0], 180)
    played.pass_ms(60_000)
    assert played.ask(60) == 2 * WINDOW_MS


def test_what_has_not_drained_is_given_back_whatever_drained_before() -> None:
    played = Played(60)
    played.ask(60)
    played.pass_ms(30_000)
    assert played.ask(30) == 0
    played.end(played.calls[1], 10)
    assert played.drained().level == 40 * WINDOW_MS


def test_what_was_given_back_has_left_the_line_too() -> None:
    """So the call behind it drains first, and its room is not made twice."""
    played = Played(60)
    played.ask(30)
    played.ask(30)
    played.end(played.calls[0], 0)
    played.pass_ms(30_000)
    assert played.ask(60) == 0
    played.end(played.calls[1], 0)
    assert played.drained().level == 60 * WINDOW_MS


@pytest.mark.parametrize(("age_ms", "level"), [(59_999, 0), (60_000, 58)])
def test_a_take_is_given_back_within_a_minute_also_under_a_lower_limit(age_ms: int, level: int) -> None:
    played = Played(60)
    played.ask(60)
    played.tpm = 2
    played.pass_ms(age_ms)
    played.end(played.calls[0], 0)
    assert played.bucket.level == level * WINDOW_MS
