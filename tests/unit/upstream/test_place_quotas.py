"""What one process uses of the quotas of places: exact, within a minute, and given back."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from rig.metrics import MODEL

from addon.upstream.place_quotas import PlaceQuotas, QuotaUse
from policies.place_quota import PlaceQuota
from policies.route import Target


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def now(self) -> datetime:
        return datetime(2026, 11, 26, tzinfo=UTC)


def at(quota: PlaceQuota | None, mode: Literal["payg", "byok"] = "payg") -> Target:
    return Target(replace(MODEL, quota=quota), mode, SecretStr("fake"))


def taken(quotas: PlaceQuotas, target: Target, tokens: int = 0) -> QuotaUse:
    use = quotas.take(target, tokens)
    assert use is not None
    return use


def test_attempts_in_flight_fill_a_place_until_one_ends() -> None:
    quotas, target = PlaceQuotas(Clock()), at(PlaceQuota(max_in_flight=2))
    uses = []
    for _ in range(2):
        assert not quotas.is_full(target, 0)
        uses.append(taken(quotas, target))
    assert quotas.is_full(target, 0)
    uses[0].end(None)
    assert not quotas.is_full(target, 0)
    uses[1].cancel()
    assert quotas.in_flight == 0


@pytest.mark.parametrize("target", [at(None), at(PlaceQuota(max_in_flight=1), "byok")])
def test_no_quota_and_a_customers_own_key_count_nothing(target: Target) -> None:
    quotas = PlaceQuotas(Clock())
    assert quotas.take(target, 5) is None
    assert not quotas.is_full(target, 5)


def test_a_process_has_its_share_of_the_live_ones() -> None:
    quotas, target = PlaceQuotas(Clock()), at(PlaceQuota(max_in_flight=5))
    quotas.processes = 3
    taken(quotas, target)
    assert not quotas.is_full(target, 0)
    taken(quotas, target)
    assert quotas.is_full(target, 0)
    quotas.processes = 2
    assert not quotas.is_full(target, 0)


def test_a_request_counts_for_a_minute_and_one_that_was_not_sent_for_nothing() -> None:
    clock = Clock()
    quotas, target = PlaceQuotas(clock), at(PlaceQuota(rpm=2))
    taken(quotas, target).end(None)
    clock.now_s += 30
    taken(quotas, target).end(0)
    assert quotas.is_full(target, 0)
    clock.now_s += 30
    assert not quotas.is_full(target, 0)
    use = taken(quotas, target)
    assert quotas.is_full(target, 0)
    use.cancel()
    assert not quotas.is_full(target, 0)


def test_the_tokens_that_were_used_replace_those_that_were_likely() -> None:
    clock = Clock()
    quotas, target = PlaceQuotas(clock), at(PlaceQuota(tpm=600))
    more, less, unknown = (taken(quotas, target, 200) for _ in range(3))
    assert quotas.is_full(target, 1)
    less.end(50)
    assert not quotas.is_full(target, 150)
    assert quotas.is_full(target, 151)
    more.end(350)
    unknown.end(None)
    assert quotas.is_full(target, 1)
    clock.now_s += 60
    assert not quotas.is_full(target, 600)


def test_a_place_that_had_to_serve_too_much_is_full_for_a_minute_more() -> None:
    clock = Clock()
    quotas, target = PlaceQuotas(clock), at(PlaceQuota(tpm=100))
    for _ in range(50):
        taken(quotas, target, 100).end(1_000)
    clock.now_s += 59
    assert quotas.is_full(target, 1)
    clock.now_s += 61
    assert not quotas.is_full(target, 100)


def test_places_without_a_quota_are_forgotten_once_nothing_is_in_flight() -> None:
    quotas, target = PlaceQuotas(Clock()), at(PlaceQuota(max_in_flight=1))
    use = taken(quotas, target)
    quotas.use_models([at(None).model])
    assert quotas.in_flight == 1
    use.end(0)
    quotas.use_models([target.model])
    assert not quotas.is_full(target, 0)


STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "end", "cancel"]), st.integers(0, 40), st.integers(0, 9)), max_size=80
)


@given(STEPS, st.sampled_from([1, 3, 401]))
def test_no_minute_has_more_requests_than_its_limit_and_all_is_given_back(
    steps: list[tuple[str, int, int]], rpm: int
) -> None:
    clock = Clock()
    quotas, target = PlaceQuotas(clock), at(PlaceQuota(max_in_flight=5, rpm=rpm, tpm=1_000))
    uses: list[tuple[float, QuotaUse]] = []
    sent: list[float] = []
    for step, pause_s, number in steps:
        clock.now_s += pause_s
        if step == "take" and not quotas.is_full(target, number):
            uses.append((clock.now_s, taken(quotas, target, number)))
        elif step != "take" and uses:
            began_s, use = uses.pop(number % len(uses))
            if step == "end":
                use.end(number)
                sent.append(began_s)
            else:
                use.cancel()
        assert quotas.in_flight == len(uses) <= 5
    for _, use in uses:
        use.cancel()
    assert quotas.in_flight == 0
    assert all(sum(one <= other < one + 60 for other in sent) <= rpm for one in sent)
    clock.now_s += 180
    assert not quotas.is_full(target, 1_000)


@given(takes=st.lists(st.integers(0, 10_000), min_size=1, max_size=6))
def test_what_is_cancelled_leaves_nothing_behind_however_much_it_was(takes: list[int]) -> None:
    quotas, target = PlaceQuotas(Clock()), at(PlaceQuota(tpm=1_000))
    for use in [taken(quotas, target, tokens) for tokens in takes]:
        use.cancel()
    assert not quotas.is_full(target, 1_000)
