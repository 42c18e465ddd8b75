"""The effective completion cap of the contract."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.completion_cap import LEAST_WINDOW_CAP_TOKENS, find_completion_cap, find_window_cap
from policies.family import Family
from policies.model import Model
from policies.prices import Prices
from policies.provider import Provider


def windowed(window: int | None) -> Model:
    provider, free = Provider("VENDOR", "https://vendor.example", "openai", ()), Prices(0, 0, 0)
    family = Family("together", cap_within_window=True)
    return Model("slug", provider, "vendor-id", family, free, free, 1000, False, True, window)


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


@pytest.mark.parametrize(
    ("window", "requested", "prompt_tokens", "cap"),
    [
        (1000, None, 100, 900),  # the catalog's maximum is the window itself
        (1000, 300, 699, None),  # a body of that size leaves room for 300
        (1000, 300, 701, 299),
        (1000, None, 744, 256),
        (1000, None, 5000, 256),  # an estimate never refuses
        (2000, None, 1000, None),
        (None, None, 5000, None),
    ],
)
def test_the_window_leaves_what_the_prompt_does_not_take(
    window: int | None, requested: int | None, prompt_tokens: int, cap: int | None
) -> None:
    model = windowed(window)
    assert find_window_cap(model, requested, prompt_tokens, lambda: prompt_tokens) == cap


def test_a_vendor_that_counts_the_prompt_alone_needs_no_room_for_the_cap() -> None:
    model = replace(windowed(1000), family=Family("apart"))
    assert find_window_cap(model, None, 5000, pytest.fail) is None


def test_a_prompt_that_fits_at_any_count_of_tokens_is_not_estimated() -> None:
    assert find_window_cap(windowed(1000), 400, 600, pytest.fail) is None


@settings(max_examples=50)
@given(st.integers(1000, 5000), st.none() | st.integers(1), st.integers(0, 6000), st.integers(0, 6000))
def test_prompt_and_cap_fit_into_the_window_or_the_cap_is_the_least(
    window: int, requested: int | None, body_bytes: int, prompt_tokens: int
) -> None:
    prompt_tokens = min(prompt_tokens, body_bytes)
    model = windowed(window)
    window_cap = find_window_cap(model, requested, body_bytes, lambda: prompt_tokens)
    cap = find_completion_cap(requested, 1000, window_cap)
    assert cap <= LEAST_WINDOW_CAP_TOKENS or prompt_tokens + cap <= window
