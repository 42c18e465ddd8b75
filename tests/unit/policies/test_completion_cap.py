"""The effective completion cap of the contract."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.completion_cap import find_completion_cap


@pytest.mark.parametrize(
    ("requested", "hard_maximum", "budget", "cap"),
    [
        (None, 4096, None, 4096),
        (100, 4096, None, 100),
        (100_000, 4096, None, 4096),
        (None, 4096, 7, 7),
        (5, 4096, 7, 5),
        (100, 50, 70, 50),
        (100, None, None, 100),
        (None, None, None, None),
    ],
)
def test_the_smallest_cap_that_is_set_wins(
    requested: int | None, hard_maximum: int | None, budget: int | None, cap: int | None
) -> None:
    assert find_completion_cap(requested, hard_maximum, budget) == cap


@settings(max_examples=50)
@given(st.none() | st.integers(1), st.integers(1), st.none() | st.integers(1))
def test_no_cap_that_is_set_is_ever_exceeded(
    requested: int | None, hard_maximum: int, budget: int | None
) -> None:
    limits = {limit for limit in (requested, hard_maximum, budget) if limit is not None}
    cap = find_completion_cap(requested, hard_maximum, budget)
    assert cap in limits
    assert all(cap <= limit for limit in limits)
