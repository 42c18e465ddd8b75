"""Prices and costs: read exactly, rounded half up once, and compared with fractions, which are never rounded."""

from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.money import (
    compute_costs_nanousd,
    compute_retail_microusd_per_mtok,
    compute_retail_prices,
    count_billable_output,
    count_billed,
    find_dearest,
    parse_price_microusd_per_mtok,
)
from policies.prices import KINDS, Prices
from policies.usage import Usage

PRICES = Prices(
    input_microusd_per_mtok=150_000, cached_input_microusd_per_mtok=75_000, output_microusd_per_mtok=600_000
)
amount = st.integers(0, 10**12)
prices = st.builds(Prices, amount, amount, amount, st.none() | amount)
tokens = st.none() | st.integers(0, 10**9)
usages = st.builds(Usage, *[tokens] * 6)
WRITES = replace(PRICES, cache_write_microusd_per_mtok=187_500)


def cost_nanousd(usage: Usage, prices: Prices, reasoning_beside: bool) -> int:
    [found] = compute_costs_nanousd(usage, [prices], reasoning_beside)
    return found


@pytest.mark.parametrize(
    ("text", "microusd"),
    [
        ("0.15", 150_000),
        ("0", 0),
        ("3", 3_000_000),
        ("3.0", 3_000_000),
        ("0.000001", 1),
        ("007.5", 7_500_000),
        ("1000000", 10**12),
    ],
)
def test_a_price_is_read_exactly(text: str, microusd: int) -> None:
    assert parse_price_microusd_per_mtok(text) == microusd


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0.0000001", "7 fractional digits; at most 6"),
        ("0.1500000", "7 fractional digits; at most 6"),
        ("-1", "negative"),
        ("-0.5", "negative"),
        ("1000000.1", "too large"),
        ("9" * 10_000, "too large"),
        *[
            (text, "not a plain decimal")
            for text in (
                "",
                " 1",
                "1 ",
                "1\n",
                ".5",
                "5.",
                "1e3",
                "nan",
                "inf",
                "1,5",
                "1_000",
                "$1",
                "0x1",
                "١",
            )
        ],
    ],
)
def test_an_invalid_price_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_price_microusd_per_mtok(text)


@pytest.mark.parametrize("value", [0.15, 1, None, b"1", True])
def test_a_price_that_is_no_string_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must be a string"):
        parse_price_microusd_per_mtok(value)  # type: ignore[arg-type]


@given(st.integers(0, 10**12))
def test_every_price_of_six_digits_survives_reading(microusd: int) -> None:
    assert parse_price_microusd_per_mtok(format(Decimal(microusd).scaleb(-6), "f")) == microusd


@given(st.text(alphabet="0123456789.-+eE_ naif", max_size=12))
def test_a_text_is_either_its_decimal_value_or_refused(text: str) -> None:
    try:
        microusd = parse_price_microusd_per_mtok(text)
    except ValueError:
        return
    assert Fraction(microusd, 10**6) == Fraction(text)


@pytest.mark.parametrize(
    ("wholesale", "markup", "retail"),
    [
        (150_000, "4", 156_000),
        (3_000_000, "4", 3_120_000),
        (0, "4", 0),
        (1, "4", 1),
        (12, "4", 12),  # 12.48
        (13, "4", 14),  # 13.52
        (1, "50", 2),  # 1.5 is half, and goes up
        (125, "0.4", 126),  # 125.5
        (7, "0", 7),
    ],
)
def test_the_markup_is_rounded_half_up_to_six_decimals(wholesale: int, markup: str, retail: int) -> None:
    assert compute_retail_microusd_per_mtok(wholesale, Decimal(markup)) == retail


@given(st.integers(0, 10**12), st.decimals(0, 1000, places=4))
def test_a_retail_price_equals_decimal_arithmetic(wholesale: int, markup: Decimal) -> None:
    exact = Decimal(wholesale) * (1 + markup / 100)
    assert compute_retail_microusd_per_mtok(wholesale, markup) == exact.to_integral_value(ROUND_HALF_UP)


@pytest.mark.parametrize("markup", ["-1", "NaN", "Infinity"])
def test_a_markup_that_is_no_percentage_is_refused(markup: str) -> None:
    with pytest.raises(ValueError, match="the markup must be"):
        compute_retail_microusd_per_mtok(1, Decimal(markup))


def test_each_of_the_three_prices_gets_the_markup() -> None:
    assert compute_retail_prices(PRICES, Decimal(4)) == Prices(156_000, 78_000, 624_000)
    assert compute_retail_prices(WRITES, Decimal(4)) == Prices(156_000, 78_000, 624_000, 195_000)


@pytest.mark.parametrize(
    ("usage", "reasoning_beside", "nanousd"),
    [
        (Usage(1_000_000, 1_000_000), False, 750_000_000),
        (Usage(1_000_000, 0, cached_tokens=1_000_000), False, 75_000_000),
        (Usage(1000, 100, cached_tokens=400), False, 90_000 + 30_000 + 60_000),
        (Usage(1000, 0, cached_tokens=9999), False, 75_000),  # never more cached than prompt
        (Usage(None, 10, cached_tokens=500), False, 6_000),
        (Usage(), True, 0),
        (Usage(0, 0, 0, 0, 0), True, 0),
        (Usage(-5, -5, -5, -5, -5), True, 0),
        (Usage(10, 5, 22, reasoning_tokens=7), False, 1_500 + 3_000),
        (Usage(10, 5, 22, reasoning_tokens=7), True, 1_500 + 7_200),
        (Usage(10, 5, 22), True, 1_500 + 7_200),  # the total alone knows of the reasoning
        (Usage(10, 5, 22), False, 1_500 + 3_000),
        (
            Usage(10, None, 22, reasoning_tokens=12),
            True,
            1_500 + 7_200,
        ),  # Gemini leaves out a completion of zero
        (Usage(10, None, 22), True, 1_500 + 7_200),
        (Usage(10, None, 22), False, 1_500 + 7_200),
        (Usage(10, None, 5), False, 1_500),
    ],
)
def test_a_call_costs_what_its_tokens_cost(usage: Usage, reasoning_beside: bool, nanousd: int) -> None:
    assert cost_nanousd(usage, PRICES, reasoning_beside) == nanousd


@pytest.mark.parametrize(
    ("usage", "prices", "nanousd"),
    [
        (Usage(1000, 0, cached_tokens=400, cache_write_tokens=500), WRITES, 30_000 + 93_750 + 15_000),
        (Usage(1000, 0, cached_tokens=400, cache_write_tokens=500), PRICES, 30_000 + 75_000 + 15_000),
        (Usage(1000, 0, cached_tokens=400, cache_write_tokens=9999), WRITES, 30_000 + 112_500),
        (Usage(1000, 0, cache_write_tokens=-1), WRITES, 150_000),
    ],
)
def test_tokens_written_into_a_cache_have_their_own_price(usage: Usage, prices: Prices, nanousd: int) -> None:
    assert cost_nanousd(usage, prices, False) == nanousd


def test_a_prompt_is_held_at_its_highest_price() -> None:
    assert find_dearest(PRICES, 1) == (150_000, 600_000, 0)
    assert find_dearest(WRITES, 1) == (187_500, 600_000, 0)


@pytest.mark.parametrize(("micro", "nano"), [(499, 0), (500, 1), (1499, 1), (1500, 2)])
def test_a_cost_is_rounded_half_up(micro: int, nano: int) -> None:
    assert cost_nanousd(Usage(prompt_tokens=1), Prices(micro, 0, 0), False) == nano


def test_a_cost_is_rounded_once_and_not_for_each_part() -> None:
    assert cost_nanousd(Usage(2, 1, cached_tokens=1), Prices(400, 400, 400), False) == 1


@given(usages, prices, st.booleans())
def test_a_cost_equals_the_exact_fraction_rounded_half_up(
    usage: Usage, prices: Prices, reasoning_beside: bool
) -> None:
    prompt, cached = usage.prompt_tokens or 0, usage.cached_tokens or 0
    cached = min(cached, prompt)
    written = min(usage.cache_write_tokens or 0, prompt - cached)
    stated = prices.cache_write_microusd_per_mtok
    output = count_billable_output(usage, reasoning_beside)
    exact = sum(
        Fraction(count, 10**6) * Fraction(price, 10**6)
        for count, price in (
            (prompt - cached - written, prices.input_microusd_per_mtok),
            (written, prices.input_microusd_per_mtok if stated is None else stated),
            (cached, prices.cached_input_microusd_per_mtok),
            (output, prices.output_microusd_per_mtok),
        )
    )
    assert cost_nanousd(usage, prices, reasoning_beside) == (exact * 10**9 + Fraction(1, 2)) // 1


@pytest.mark.parametrize(
    ("usage", "reasoning_beside", "billed"),
    [
        (Usage(100, 20, 120), False, (100, 0, 0, 20)),
        (Usage(100, 20, 120, cached_tokens=30), False, (70, 30, 0, 20)),
        (Usage(100, 20, 120, cached_tokens=30, cache_write_tokens=10), False, (60, 30, 10, 20)),
        (Usage(100, 20, 125, reasoning_tokens=5), True, (100, 0, 0, 25)),
        (Usage(0, 0, 0), True, (0, 0, 0, 0)),
        (Usage(), True, (0, 0, 0, 0)),
        (Usage(5, 0), False, (5, 0, 0, 0)),
        (Usage(5, 7), True, (5, 0, 0, 7)),
        (Usage(5, None, 12), False, (5, 0, 0, 7)),
        (Usage(None, None, 7), False, (0, 0, 0, 7)),
        (Usage(5, 7, reasoning_tokens=0), True, (5, 0, 0, 7)),
        (Usage(5, -7, reasoning_tokens=-1), True, (5, 0, 0, 0)),
    ],
)
def test_tokens_are_counted_at_the_price_that_bills_them(
    usage: Usage, reasoning_beside: bool, billed: tuple[int, int, int, int]
) -> None:
    found = dict(zip(KINDS, count_billed(usage, reasoning_beside), strict=True))
    output = found["output"] + found["reasoning"]
    assert (found["input"], found["cached_input"], found["cache_write"], output) == billed


@given(usages, prices, prices, st.booleans())
def test_the_wholesale_and_retail_costs_do_not_depend_on_each_other(
    usage: Usage, wholesale: Prices, retail: Prices, reasoning_beside: bool
) -> None:
    alone = [cost_nanousd(usage, one, reasoning_beside) for one in (wholesale, retail)]
    assert compute_costs_nanousd(usage, (wholesale, retail), reasoning_beside) == alone


@given(usages)
def test_reasoning_beside_the_completion_never_makes_a_call_cheaper(usage: Usage) -> None:
    assert count_billable_output(usage, True) >= count_billable_output(usage, False)
    if usage.completion_tokens is not None:
        assert count_billable_output(usage, False) == usage.completion_tokens
