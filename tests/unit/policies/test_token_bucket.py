"""The groups of a token bucket: exact in a small one, bounded in number in a large one."""

import pytest

from policies.token_bucket import GROUPS, WINDOW_US, slice_us


@pytest.mark.parametrize("limit_rpm", [1, 60, GROUPS])
def test_each_take_of_a_small_bucket_is_a_group(limit_rpm: int) -> None:
    assert slice_us(limit_rpm) == 0


@pytest.mark.parametrize("limit_rpm", [GROUPS + 1, 10_000, 10**9])
def test_the_groups_of_a_large_bucket_cover_the_window(limit_rpm: int) -> None:
    assert slice_us(limit_rpm) * GROUPS == WINDOW_US
