"""The quota of a place: the share of a process, and when it is used up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.place_quota import PlaceQuota, bound_level, make_quota
from policies.token_rate import WINDOW_MS, Bucket, drain, find_wait_ms


@given(st.integers(1, 10**9), st.integers(1, 256))
def test_the_shares_of_all_processes_are_the_quota_and_at_most_one_more_for_each(
    limit: int, processes: int
) -> None:
    share = PlaceQuota(rpm=limit).share(processes)
    assert share.rpm is not None
    assert limit <= share.rpm * processes < limit + processes
    assert (share.max_in_flight, share.tpm) == (None, None)


@pytest.mark.parametrize(
    ("quota", "in_flight", "requests", "level", "tokens", "expected"),
    [
        (PlaceQuota(max_in_flight=2), 1, 99, 99, 99, False),
        (PlaceQuota(max_in_flight=2), 2, 0, 0, 1, True),
        (PlaceQuota(rpm=3), 99, 2, 99, 99, False),
        (PlaceQuota(rpm=3), 0, 3, 0, 1, True),
        (PlaceQuota(tpm=100), 99, 99, 60, 40, False),
        (PlaceQuota(tpm=100), 0, 0, 60, 41, True),
        # One that is larger than all of it may be made while nothing is used.
        (PlaceQuota(tpm=100), 0, 0, 0, 500, False),
        (PlaceQuota(tpm=100), 0, 0, 1, 500, True),
        # Where nothing is estimated, there must be room for a token.
        (PlaceQuota(tpm=100), 0, 0, 100, 0, True),
        (PlaceQuota(max_in_flight=9, rpm=9, tpm=100), 8, 8, 99, 1, False),
        (PlaceQuota(max_in_flight=9, rpm=9, tpm=100), 8, 9, 99, 1, True),
    ],
)
def test_a_place_is_used_up_at_the_first_limit(
    quota: PlaceQuota, in_flight: int, requests: int, level: int, tokens: int, expected: bool
) -> None:
    assert quota.is_used_up(in_flight, requests, Bucket(level * WINDOW_MS), tokens) is expected


def test_the_least_of_all_that_is_written_of_a_place_counts() -> None:
    assert make_quota([(None, None, None), (None, None, None)]) is None
    assert make_quota([(3, None, None), (None, 7, None), (2, 9, None)]) == PlaceQuota(2, 7, None)


@given(st.integers(0, 10**15), st.integers(1, 10**9), st.integers(0, 10**9))
def test_a_place_that_served_too_much_has_room_after_two_minutes(level: int, tpm: int, tokens: int) -> None:
    bucket = bound_level(Bucket(level), tpm)
    assert find_wait_ms(drain(bucket, tpm, 2 * WINDOW_MS), tpm, min(tokens, tpm)) == 0
