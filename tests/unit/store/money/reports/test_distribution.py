"""Percentiles from counts in buckets: next to the exact ones."""

from bisect import bisect_left
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.store.money.reports.distribution import add_buckets, find_percentile
from addon.store.money.sums.rollup_schema import BUCKET_BOUNDS_MS

BEYOND = BUCKET_BOUNDS_MS[-1]


def count(durations_ms: list[int]) -> Counter[int]:
    return Counter(bisect_left(BUCKET_BOUNDS_MS, one) for one in durations_ms)


@given(st.lists(st.integers(0, 3 * BEYOND), min_size=1), st.integers(1, 100))
def test_a_percentile_is_in_the_bucket_of_the_exact_one(durations_ms: list[int], percent: int) -> None:
    exact = sorted(durations_ms)[max(1, -(-len(durations_ms) * percent // 100)) - 1]
    found = find_percentile(count(durations_ms), percent)
    assert found is not None
    if exact > BEYOND:
        assert found == BEYOND
    else:
        assert bisect_left(BUCKET_BOUNDS_MS, found) == bisect_left(BUCKET_BOUNDS_MS, exact)
        assert exact <= 4 or max(exact / found, found / exact) <= 2**0.5
        assert exact > 4 or abs(found - exact) <= 4


@given(st.lists(st.integers(0, 3 * BEYOND), min_size=1))
def test_a_higher_percentile_is_no_lower_duration(durations_ms: list[int]) -> None:
    found = [find_percentile(count(durations_ms), percent) for percent in range(1, 101)]
    assert found == sorted(found, key=int)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("counts", "percent", "found"),
    [
        ({}, 50, None),
        ({0: 1}, 50, 4),
        ({0: 4}, 50, 2),
        ({9: 10}, 50, 77),  # From 64 to 90 ms.
        ({9: 10}, 95, 90),
        ({9: 9, 12: 1}, 95, 256),
        ({39: 3}, 50, BEYOND),
    ],
)
def test_a_percentile_is_read_within_its_bucket(
    counts: dict[int, int], percent: int, found: int | None
) -> None:
    assert find_percentile(counts, percent) == found


def test_lists_of_the_database_are_added() -> None:
    counts = Counter[int]()
    for listed in (None, "", '{"12":3,"15":1},{}', "12,4,4"):
        add_buckets(counts, listed)
    assert counts == {12: 4, 15: 1, 4: 2}
