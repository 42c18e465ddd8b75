"""Tiers, service tiers and counters of each kind: costs compared with an oracle that prices one token after another."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.money import compute_costs_nanousd, compute_retail_prices, count_billable_output, find_dearest
from policies.prices import PRICE_FIELDS, Prices, Tier, list_prices
from policies.usage import Usage

price = st.integers(0, 10**7)
FLAT = {
    name: price if name.startswith(("input", "cached_input", "output", "per_")) else st.none() | price
    for name in PRICE_FIELDS
}
flat_prices = st.builds(Prices, **FLAT)


@st.composite
def tiered_prices(draw: st.DrawFn) -> Prices:
    bounds = sorted(draw(st.sets(st.integers(1, 60), max_size=3)))
    tiers = tuple(Tier(bound, draw(flat_prices), draw(st.booleans())) for bound in bounds)
    return replace(draw(flat_prices), tiers=tiers)


price_sets = st.builds(
    lambda base, services: replace(base, service_tiers=services),
    tiered_prices(),
    st.dictionaries(st.sampled_from(["flex", "priority"]), tiered_prices(), max_size=2),
)
count = st.none() | st.integers(0, 80)
usages = st.builds(
    Usage,
    **dict.fromkeys(set(Usage.__struct_fields__) - {"service_tier"}, count),
    service_tier=st.sampled_from([None, "default", "flex", "priority", "fast", "batch"]),
)


def price_one(prices: Prices, kind: str) -> Fraction:
    """Return the price of one token, by the words of docs/catalog.md."""
    chain = {
        "audio": ("audio_input", "input"),
        "image": ("image_input", "input"),
        "written": ("cache_write_5m", "cache_write", "input"),
        "written 1h": ("cache_write_1h", "cache_write", "cache_write_5m", "input"),
        "cached audio": ("cached_audio_input", "cached_input"),
        "cached": ("cached_input",),
        "reasoning": ("reasoning", "output"),
        "spoken": ("audio_output", "output"),
    }.get(kind, (kind,))
    stated = [getattr(prices, f"{name}_microusd_per_mtok") for name in chain]
    return Fraction(next(one for one in stated if one is not None), 10**12)


def level_of(prices: Prices, place: int, prompt: int) -> Prices:
    """Return the prices of the token at ``place`` in a prompt of this length."""
    level = prices
    for tier in prices.tiers:
        if prompt > tier.above_prompt_tokens and (tier.whole_call or place >= tier.above_prompt_tokens):
            level = tier.prices
    return level


def oracle(usage: Usage, prices: Prices, beside: bool) -> int:
    """Return the cost by pricing one token after another."""
    same = {"fast": "priority"}.get(usage.service_tier or "", usage.service_tier or "")
    prices = prices.service_tiers.get(same, prices)
    prompt, cached, written = (
        usage.prompt_tokens or 0,
        usage.cached_tokens or 0,
        usage.cache_write_tokens or 0,
    )
    cached = min(cached, prompt)
    written = min(written, prompt - cached)
    cached_audio = min(usage.cached_audio_tokens or 0, cached)
    long = min(usage.cache_write_1h_tokens or 0, written)
    plain = prompt - cached - written
    audio = min(max(0, (usage.audio_input_tokens or 0) - cached_audio), plain)
    image = min(usage.image_input_tokens or 0, plain - audio)
    tokens = ["cached audio"] * cached_audio + ["cached"] * (cached - cached_audio)
    tokens += ["written 1h"] * long + ["written"] * (written - long)
    tokens += ["image"] * image + ["audio"] * audio + ["input"] * (plain - audio - image)
    assert len(tokens) == prompt
    cost = sum((price_one(level_of(prices, at, prompt), kind) for at, kind in enumerate(tokens)), Fraction(0))
    output = count_billable_output(usage, beside)
    reasoning = min(usage.reasoning_tokens or 0, output)
    spoken = min(usage.audio_output_tokens or 0, output - reasoning)
    answer = ["reasoning"] * reasoning + ["spoken"] * spoken + ["output"] * (output - reasoning - spoken)
    last = level_of(prices, prompt, prompt)
    cost += sum((price_one(last, kind) for kind in answer), Fraction(0))
    cost += Fraction((usage.searches or 0) * last.per_search_microusd_per_m, 10**12)
    if prompt or output or usage.searches:
        cost += Fraction(last.per_call_microusd_per_m, 10**12)
    return int((cost * 10**9 + Fraction(1, 2)) // 1)


@given(usages, price_sets, st.booleans())
def test_a_cost_is_that_of_its_tokens_one_by_one(usage: Usage, prices: Prices, beside: bool) -> None:
    assert compute_costs_nanousd(usage, [prices], beside) == [oracle(usage, prices, beside)]


@given(usages, price_sets, st.booleans())
def test_no_call_costs_more_than_was_held_for_its_counts(usage: Usage, prices: Prices, beside: bool) -> None:
    dearest = find_dearest(prices, usage.prompt_tokens or 0, max_searches=usage.searches or 0)
    output = count_billable_output(usage, beside)
    held_picousd = (usage.prompt_tokens or 0) * dearest.input_microusd_per_mtok + dearest.call_microusd_per_m
    held_picousd += output * dearest.output_microusd_per_mtok
    assert compute_costs_nanousd(usage, [prices], beside)[0] <= -(-held_picousd // 1000)


@given(price_sets, st.sampled_from([Decimal(0), Decimal(4)]))
def test_every_price_of_a_set_gets_the_markup(prices: Prices, markup: Decimal) -> None:
    retail = list_prices(compute_retail_prices(prices, markup))
    assert len(compute_retail_prices(prices, markup).tiers) == len(prices.tiers)
    if not markup:
        assert retail == list_prices(prices)


def per_m(text: str) -> int:
    return int(Decimal(text) * 10**6)


def tiered(base: tuple[str, str, str], bound: int, above: tuple[str, str, str], **more: Any) -> Prices:
    """Return prices of input, cached input and output."""
    return Prices(*map(per_m, base), tiers=(Tier(bound, Prices(*map(per_m, above))),), **more)


GPT_5_4 = tiered(("2.5", "0.25", "15"), 272_000, ("5", "0.5", "22.5"))
HAIKU_5_5 = tiered(("0.1", "0.01", "0.5"), 100_000, ("0.5", "0.05", "2.5"))
GROK_4_7 = tiered(("2", "0.5", "6"), 199_999, ("4", "1", "12"))
GEMINI_3_1_PRO = tiered(("2", "0.2", "12"), 200_000, ("4", "0.4", "18"))
SOL_ABOVE = Prices(8_000_000, 800_000, 30_000_000, 10_000_000)
GPT_5_6_SOL = Prices(4_000_000, 400_000, 20_000_000, 5_000_000, tiers=(Tier(272_000, SOL_ABOVE),))

# prices, usage, cost in USD, worked out by hand
LONG_CALLS = {
    # 300,000 × $5 + 1,000 × $22.50
    "gpt-5.4, long": (GPT_5_4, Usage(300_000, 1_000), "1.5225"),
    "gpt-5.4, at the bound": (GPT_5_4, Usage(272_000, 1_000), "0.695"),
    "gpt-5.4, one above": (GPT_5_4, Usage(272_001, 1_000), "1.382505"),
    # 100,000 × $5 + 200,000 × $0.50 + 1,000 × $22.50: cached tokens count towards the bound
    "gpt-5.4, mostly cached": (GPT_5_4, Usage(300_000, 1_000, cached_tokens=200_000), "0.6225"),
    # five times its base: 150,000 × $0.50 + 2,000 × $2.50
    "haiku-5.5": (HAIKU_5_5, Usage(150_000, 2_000), "0.08"),
    "haiku-5.5, at the bound": (HAIKU_5_5, Usage(100_000, 2_000), "0.011"),
    # The vendor's tier begins with 200,000: 200,000 × $4 + 1,000 × $12
    "grok, exactly 200,000": (GROK_4_7, Usage(200_000, 1_000), "0.812"),
    "grok, one less": (GROK_4_7, Usage(199_999, 1_000), "0.405998"),
    # 250,000 × $4 + 8,000 × $18, thoughts beside the completion
    "gemini-3.1-pro": (GEMINI_3_1_PRO, Usage(250_000, 3_000, reasoning_tokens=5_000), "1.144"),
    "gemini-3.1-pro, at the bound": (GEMINI_3_1_PRO, Usage(200_000, 3_000, reasoning_tokens=5_000), "0.496"),
    # 100,000 × $8 + 50,000 × $0.80 + 150,000 × $10 + 2,000 × $30
    "gpt-5.6-sol, writes": (
        GPT_5_6_SOL,
        Usage(300_000, 2_000, cached_tokens=50_000, cache_write_tokens=150_000),
        "2.4",
    ),
}


@pytest.mark.parametrize("case", LONG_CALLS)
def test_a_long_call_costs_what_its_vendor_charges(case: str) -> None:
    prices, usage, usd = LONG_CALLS[case]
    assert compute_costs_nanousd(usage, [prices], case.startswith("gemini")) == [int(Decimal(usd) * 10**9)]


def test_a_tier_of_the_part_above_prices_the_end_of_a_prompt_and_the_answer() -> None:
    prices = replace(GPT_5_4, tiers=(replace(GPT_5_4.tiers[0], whole_call=False),))
    usd = Decimal("272000") * Decimal("2.5") + 28_000 * 5 + 1_000 * Decimal("22.5")
    assert compute_costs_nanousd(Usage(300_000, 1_000), [prices], False) == [int(usd * 1000)]


def test_writes_of_an_hour_have_their_own_price_and_never_exceed_the_total() -> None:
    claude = Prices(5_000_000, 500_000, 25_000_000, 6_250_000, cache_write_1h_microusd_per_mtok=10_000_000)
    written = Usage(3_000, 0, cache_write_tokens=3_000, cache_write_1h_tokens=1_000)
    assert compute_costs_nanousd(written, [claude], False) == [22_500_000]
    short_split = Usage(1_000, 0, cache_write_tokens=1_000, cache_write_1h_tokens=9_000)
    assert compute_costs_nanousd(short_split, [claude], False) == [10_000_000]


def test_sound_that_was_cached_is_counted_once() -> None:
    """Recorded: google-gem-3b742224986760bb has AUDIO 160 of 1518 tokens, 118 of them among 1122 cached ones."""
    lite = Prices(
        100_000,
        10_000,
        400_000,
        audio_input_microusd_per_mtok=300_000,
        cached_audio_input_microusd_per_mtok=30_000,
    )
    usage = Usage(1_518, 0, cached_tokens=1_122, audio_input_tokens=160, cached_audio_tokens=118)
    by_hand = (1_518 - 1_122 - 42) * 100_000 + 42 * 300_000 + (1_122 - 118) * 10_000 + 118 * 30_000
    assert compute_costs_nanousd(usage, [lite], False) == [round(by_hand / 1000)]


def test_a_service_tier_has_its_prices_by_either_of_its_names() -> None:
    fast = Prices(5_000_000, 500_000, 30_000_000)
    prices = replace(GPT_5_4, service_tiers={"priority": fast})
    for name in ("priority", "fast"):
        assert compute_costs_nanousd(Usage(1_000, 0, service_tier=name), [prices], False) == [5_000_000]
    assert compute_costs_nanousd(Usage(1_000, 0, service_tier="scale"), [prices], False) == [2_500_000]


@pytest.mark.parametrize(
    ("prompt", "tier", "kinds", "dearest"),
    [
        (272_000, None, (), (20_000_000, 90_000_000)),
        (272_000, "default", (), (2_500_000, 15_000_000)),
        (272_001, "default", (), (5_000_000, 22_500_000)),
        (1, "flex", (), (2_500_000, 15_000_000)),
        (1, "fast", (), (20_000_000, 90_000_000)),
        (1, "auto", (), (20_000_000, 90_000_000)),
        (1, "default", ("cache_write_1h",), (4_000_000, 15_000_000)),
    ],
)
def test_a_hold_counts_with_the_dearest_prices_that_a_call_can_meet(
    prompt: int, tier: str | None, kinds: tuple[str, ...], dearest: tuple[int, int]
) -> None:
    services = {"flex": Prices(1_250_000, 130_000, 7_500_000), "priority": Prices(20_000_000, 1, 90_000_000)}
    prices = replace(GPT_5_4, service_tiers=services, cache_write_1h_microusd_per_mtok=4_000_000)
    assert find_dearest(prices, prompt, tier, kinds)[:2] == dearest


def test_more_of_a_kind_never_costs_less_where_it_is_dearer() -> None:
    costs = [
        compute_costs_nanousd(Usage(1_000, 10, cache_write_tokens=written), [GPT_5_6_SOL], False)[0]
        for written in (0, 10, 500, 1_000, 5_000)
    ]
    assert all(less <= more for less, more in pairwise(costs))


def test_prices_are_listed_by_their_keys_with_those_that_differ_in_tiers() -> None:
    assert list_prices(GPT_5_4) == {
        "input_price_per_m": 2_500_000,
        "cached_input_price_per_m": 250_000,
        "output_price_per_m": 15_000_000,
        "cache_write_price_per_m": None,
        "tiers[272000].input_price_per_m": 5_000_000,
        "tiers[272000].cached_input_price_per_m": 500_000,
        "tiers[272000].output_price_per_m": 22_500_000,
    }
