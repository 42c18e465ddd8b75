"""Plausible counts: the bounds of each, and the estimate of a prompt only where it is needed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from policies.family import Family
from policies.model import Model
from policies.money import MAX_CAP_USD
from policies.plausible_usage import FACTOR, NOT_A_COUNT, ORDINARY_PROMPT_TOKENS, keep_plausible
from policies.prices import Prices
from policies.provider import Provider
from policies.usage import Usage

FREE = Prices(0, 0, 0)
PROVIDER = Provider("TESTER", "https://tester.example", "openai", ())
FAMILY = Family("chat", uncapped_completion_tokens=20)
MODEL = Model("m", PROVIDER, "m-1", FAMILY, FREE, FREE, 100, False, True)
OUTSIDE = Model("TESTER/m", PROVIDER, "m", FAMILY, FREE, FREE, None, True, True)
CHOICES = 2
MOST_OUTPUT = FACTOR * (100 + 20) * CHOICES


def unneeded() -> int:
    raise AssertionError("no count is large enough for the estimate")


def choices() -> int:
    return CHOICES


@pytest.mark.parametrize(
    ("usage", "implausible"),
    [
        (Usage(), ()),
        (Usage(0, 0, 0, 0, 0, 0), ()),
        (Usage(ORDINARY_PROMPT_TOKENS, MOST_OUTPUT, ORDINARY_PROMPT_TOKENS), ()),
        (Usage(1, MOST_OUTPUT + 1), ("completion_tokens",)),
        (Usage(1, 1, reasoning_tokens=MOST_OUTPUT + 1), ("reasoning_tokens",)),
        (Usage(1, 1, cached_tokens=ORDINARY_PROMPT_TOKENS + 1), ("cached_tokens",)),
        (Usage(1, 1, cache_write_tokens=ORDINARY_PROMPT_TOKENS + 1), ("cache_write_tokens",)),
        (Usage(1, 1, reported_nanousd=MAX_CAP_USD * 10**9), ()),
        (Usage(1, 1, reported_nanousd=MAX_CAP_USD * 10**9 + 1), ("reported_nanousd",)),
        (Usage(NOT_A_COUNT, -5, NOT_A_COUNT), ("prompt_tokens", "completion_tokens", "total_tokens")),
    ],
)
def test_each_implausible_count_is_left_out_and_named(usage: Usage, implausible: tuple[str, ...]) -> None:
    kept, names = keep_plausible(usage, MODEL, choices, unneeded)
    assert names == implausible
    for name in Usage.__struct_fields__:
        assert getattr(kept, name) == (None if name in implausible else getattr(usage, name))


def test_a_large_prompt_is_plausible_where_its_estimate_is_large_too() -> None:
    usage = Usage(ORDINARY_PROMPT_TOKENS + 1, 1)
    assert keep_plausible(usage, MODEL, choices, lambda: ORDINARY_PROMPT_TOKENS)[1] == ()
    assert keep_plausible(usage, MODEL, choices, lambda: 100)[1] == ("prompt_tokens",)


def test_a_model_outside_the_catalog_has_no_bound_for_its_output() -> None:
    assert keep_plausible(Usage(1, 10**12, 10**12 + 1), OUTSIDE, lambda: 1, lambda: 1)[1] == ()


COUNTS = st.none() | st.integers(-2, 10**5) | st.integers(ORDINARY_PROMPT_TOKENS - 10**5, 10**9)


@given(st.builds(Usage, *[COUNTS] * 6), st.sampled_from([MODEL, OUTSIDE]), st.integers(1, 8))
def test_ordinary_counts_are_kept_exactly_where_each_is_within_its_bound(
    usage: Usage, model: Model, asked: int
) -> None:
    prompt = 3 * 10**6
    most_prompt = ORDINARY_PROMPT_TOKENS
    if max(usage.prompt_tokens or 0, usage.total_tokens or 0) > most_prompt:
        most_prompt = FACTOR * prompt
    most_output = FACTOR * (100 + 20) * asked if model is MODEL else 10**12
    bounds = {
        "prompt_tokens": most_prompt,
        "completion_tokens": most_output,
        "total_tokens": most_prompt + most_output,
        "cached_tokens": most_prompt,
        "reasoning_tokens": most_output,
        "cache_write_tokens": most_prompt,
    }
    implausible = tuple(name for name, most in bounds.items() if not 0 <= (getattr(usage, name) or 0) <= most)
    kept, names = keep_plausible(usage, model, lambda: asked, lambda: prompt)
    assert names == implausible
    assert kept == structs.replace(usage, **dict.fromkeys(implausible))
