"""A price set is one text and one name for the same prices, and can be read back to the last of them."""

import hashlib
import json
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig.ledger import make_priced_row

from policies.ledger_row import PRICE_SET_CONTENT
from policies.money import compute_call_costs_nanousd
from policies.price_set import PriceSet, hash_content
from policies.prices import PRICE_FIELDS, Prices, Tier
from policies.usage import Usage

BASE = Prices(1_250_000, 125_000, 10_000_000)
LONG = Prices(2_500_000, 250_000, 15_000_000)
FULL = replace(
    BASE,
    cache_write_1h_microusd_per_mtok=0,
    per_search_microusd_per_m=10_000_000_000,
    tiers=(Tier(200_000, LONG),),
    service_tiers=MappingProxyType({"flex": Prices(625_000, 62_500, 5_000_000)}),
)
SET = PriceSet(FULL, FULL, Decimal("4.0"), "reported", reasoning_beside=True)
CONTENT = (
    '{"cost":"reported","markup_percent":"4","reasoning_beside":true,"retail":PRICES,"rounding":1,"wholesale":PRICES}'
).replace(
    "PRICES",
    '{"cache_write_1h":0,"cached_input":125000,"input":1250000,"output":10000000,"per_search":10000000000,'
    '"service_tiers":{"flex":{"cached_input":62500,"input":625000,"output":5000000}},'
    '"tiers":[{"above_prompt_tokens":200000,"prices":{"cached_input":250000,"input":2500000,"output":15000000},'
    '"whole_call":true}]}',
)

amounts = st.integers(0, 10**12)
stated = st.fixed_dictionaries(
    dict.fromkeys(PRICE_FIELDS[:3], amounts), optional=dict.fromkeys(PRICE_FIELDS[3:], amounts)
)
tiered = st.tuples(
    stated,
    st.lists(st.tuples(st.integers(1, 10**6), stated, st.booleans()), max_size=2, unique_by=lambda t: t[0]),
).map(
    lambda made: Prices(
        **made[0],
        tiers=tuple(
            Tier(above, Prices(**inner), whole) for above, inner, whole in sorted(made[1], key=lambda t: t[0])
        ),
    )
)
prices = st.tuples(
    tiered, st.dictionaries(st.sampled_from(["flex", "priority", "batch"]), tiered, max_size=2)
).map(lambda made: replace(made[0], service_tiers=MappingProxyType(made[1])))
sets = st.builds(
    PriceSet,
    prices,
    prices,
    st.decimals(0, 100, places=3),
    st.sampled_from(["computed", "reported"]),
    st.booleans(),
)


def test_the_content_of_a_set_stays_as_ledgers_have_it() -> None:
    assert SET.content == CONTENT
    assert SET.hash == hashlib.sha256(CONTENT.encode()).hexdigest()[:32] == hash_content(CONTENT)


@settings(max_examples=60)
@given(sets)
def test_a_set_is_read_back_as_it_was(one: PriceSet) -> None:
    read = PriceSet.parse(one.content)
    assert read == one
    assert read.content == one.content


@pytest.mark.parametrize("same", ["4", "4.000", "0.4e1"])
def test_the_same_markup_is_the_same_set(same: str) -> None:
    assert replace(SET, markup_percent=Decimal(same)).hash == SET.hash


@pytest.mark.parametrize(
    "change",
    [
        {"wholesale": BASE},
        {"retail": replace(FULL, input_microusd_per_mtok=1_250_001)},
        {"markup_percent": Decimal("4.1")},
        {"cost": "computed"},
        {"reasoning_beside": False},
        {"wholesale": replace(FULL, tiers=(Tier(200_000, LONG, whole_call=False),))},
        {"wholesale": replace(FULL, tiers=(Tier(200_001, LONG),))},
    ],
    ids=str,
)
def test_all_that_decides_a_cost_is_in_the_name(change: dict[str, object]) -> None:
    assert replace(SET, **change).hash != SET.hash


CHANGES = {
    "a text for a price": ("125000", '"125000"'),
    "a part of a price": ("125000", "125000.5"),
    "a negative price": ("125000", "-125000"),
    "a later version": ('"rounding":1', '"rounding":2'),
    "an odd markup": ('"4"', '"NaN"'),
    "a negative markup": ('"4"', '"-4"'),
    "no markup": ('"4"', '"four"'),
    "another cost": ('"reported"', '"guessed"'),
    "a text for a bound": ("200000", '"200000"'),
    "a later price": ("per_search", "per_picture"),
    "no price": ('"output"', '"outputs"'),
    "prices that are none": ('"service_tiers":{"flex":{', '"service_tiers":{"flex":[],"slow":{'),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_no_set_of_this_version_is_refused(change: str) -> None:
    before, after = CHANGES[change]
    assert before in CONTENT
    with pytest.raises(ValueError, match=r"it is no price set|version 2"):
        PriceSet.parse(CONTENT.replace(before, after, 1))


@pytest.mark.parametrize("content", ["", "null", "[]", "{}", "1", "[" * 100_000], ids=range(6))
def test_what_is_no_json_of_a_set_is_refused(content: str) -> None:
    with pytest.raises(ValueError, match=r"it is no price set|Expecting value"):
        PriceSet.parse(content)


def test_a_read_set_prices_a_call_as_the_vendor_does() -> None:
    """250,000 tokens at $2.50 and 1,000 at $15 per million; or what the provider says, and 4 %."""
    read = PriceSet.parse(json.dumps(json.loads(CONTENT), indent=1))
    usage = Usage(prompt_tokens=250_000, completion_tokens=1_000)
    assert compute_call_costs_nanousd(usage, read) == [640_000_000, 640_000_000]
    reported = replace(SET, markup_percent=Decimal(4))
    assert compute_call_costs_nanousd(Usage(reported_nanousd=1_000), reported) == [1_000, 1_040]


def test_a_row_has_the_set_of_its_model_and_a_customers_key_has_none() -> None:
    row = make_priced_row(prices=FULL)
    assert row["price_set"] == hash_content(row[PRICE_SET_CONTENT])
    assert PriceSet.parse(row[PRICE_SET_CONTENT]).wholesale == FULL
