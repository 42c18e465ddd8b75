"""A call whose costs the condition calls right has just these costs, whatever its counts and prices are."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from addon.store.money.verify.plain_costs import IS_PLAINLY_RIGHT, write_sets
from policies.money import compute_call_costs_nanousd
from policies.price_set import PriceSet
from policies.prices import Prices, Tier
from policies.usage import Usage

NAME = "a" * 32
PRICE = st.sampled_from([0, 1, 499, 150_000, 10**9, 10**12])
FLAT = st.builds(
    lambda plain, cached, output, **more: Prices(plain, cached, output, **more),
    *(PRICE, PRICE, PRICE),
    cache_write_microusd_per_mtok=st.none() | PRICE,
    reasoning_microusd_per_mtok=st.none() | PRICE,
    audio_input_microusd_per_mtok=st.none() | PRICE,
    per_call_microusd_per_m=st.sampled_from([0, 0, 7]),
)
SIDE = st.builds(
    lambda flat, tiers, services: replace(flat, tiers=tiers, service_tiers=services),
    FLAT,
    st.just(()) | st.tuples(st.builds(Tier, st.integers(0, 5_000), FLAT, st.booleans())),
    st.just({}) | st.fixed_dictionaries({"flex": FLAT}),
)
SETS = st.builds(
    PriceSet, SIDE, SIDE, st.just(Decimal(4)), st.sampled_from(["computed", "reported"]), st.booleans()
)
COUNT = st.sampled_from([None, 0, 1, 499, 500, 1_000, 4_000, 10**8, 10**8 + 1, 10**16, -3])
USAGES = st.builds(
    Usage,
    **{name: COUNT for name in Usage.__struct_fields__ if name not in {"service_tier", "reported_nanousd"}},
    service_tier=st.sampled_from([None, None, "flex", "other"]),
    reported_nanousd=st.sampled_from([None, None, 0, 7]),
)


def is_plainly_right(usage: Usage, prices: PriceSet, costs: list[int], **changes: Any) -> bool:
    row = {
        **structs.asdict(usage),
        **{"mode": "payg", "price_set": NAME, "wholesale_nanousd": costs[0], "retail_nanousd": costs[1]},
        **changes,
    }
    values = ", ".join(f":{name} AS {name}" for name in row)
    sql = (
        f"WITH {write_sets({NAME: prices})} SELECT ({IS_PLAINLY_RIGHT}) IS TRUE"
        f" FROM (SELECT {values}) AS usage LEFT JOIN sets ON sets.name = usage.price_set"
    )
    with closing(sqlite3.connect(":memory:")) as engine:
        return bool(engine.execute(sql, row).fetchone()[0])


@given(USAGES, SETS, st.sampled_from([(1, 0), (0, -1), (-1, 0)]))
@example(Usage(1_000, 100, 1_100), PriceSet(Prices(1, 1, 1), Prices(2, 2, 2), Decimal(4)), (1, 0))
def test_a_wrong_cost_is_never_plainly_right(usage: Usage, prices: PriceSet, off: tuple[int, int]) -> None:
    wholesale, retail = compute_call_costs_nanousd(usage, prices)
    if max(wholesale, retail) < 2**62:
        assert not is_plainly_right(usage, prices, [wholesale + off[0], retail + off[1]])


@given(USAGES, SETS)
def test_the_plain_cost_is_the_cost(usage: Usage, prices: PriceSet) -> None:
    plain = [_plain(usage, side) for side in (prices.wholesale, prices.retail)]
    if is_plainly_right(usage, prices, plain):
        assert compute_call_costs_nanousd(usage, prices) == plain


def _plain(usage: Usage, side: Prices) -> int:
    """Return what the counts of text cost at the base prices, whether or not others apply."""
    cached, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    plain = (usage.prompt_tokens or 0) - cached - written
    priced = ((plain, "input"), (cached, "cached_input"), (written, "cache_write"))
    picousd = sum(count * side.price_of(kind) for count, kind in priced)
    cost = (picousd + (usage.completion_tokens or 0) * side.price_of("output") + 500) // 1_000
    return min(max(cost, 0), 2**62)


@pytest.mark.parametrize(
    "usage",
    [Usage(1_000, 100, 1_100), Usage(1_000, 0, 1_000, 400, 7, 100), Usage(499, 1), Usage()],
    ids=str,
)
def test_most_calls_of_text_are_plainly_right(usage: Usage) -> None:
    prices = PriceSet(Prices(150_000, 75_000, 600_000), Prices(156_000, 78_000, 624_000), Decimal(4))
    costs = compute_call_costs_nanousd(usage, prices)
    assert is_plainly_right(usage, prices, costs)
    assert not is_plainly_right(usage, prices, costs, price_set="b" * 32)
    assert not is_plainly_right(usage, prices, [one + 1 for one in costs])
    assert is_plainly_right(usage, prices, [0, 0], mode="byok", price_set=None)
    assert not is_plainly_right(usage, prices, [0, 1], mode="byok", price_set=None)
    assert not is_plainly_right(usage, prices, [0, 0], mode="byok")
