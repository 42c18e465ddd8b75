"""The costs of rows follow from their own counts and price sets. All expected costs are computed by hand."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from rig.ledger import make_priced_row, make_row, second_connection
from rig.rollups import open_ledger
from rig.written_rows import write_call
from sqlite_utils import Database, Migrations

from addon.store.money.sqlite.migration_steps import STEPS, m0019_price_sets
from addon.store.money.sqlite.migrations import migrate
from addon.store.money.verify import price_check
from addon.store.money.verify.price_check import count_not_kept, find_wrong_costs
from addon.store.protocol import Settlement, Store
from policies.family import Family
from policies.ledger_row import PRICE_SET_CONTENT
from policies.price_set import PriceSet, hash_content
from policies.prices import Prices, Tier
from policies.usage import Usage

SMALL = Prices(150_000, 75_000, 600_000)
SMALL_RETAIL = Prices(156_000, 78_000, 624_000)
TIERED = replace(
    Prices(2_500_000, 250_000, 15_000_000),
    tiers=(Tier(272_000, Prices(5_000_000, 500_000, 22_500_000)),),
    service_tiers=MappingProxyType({"flex": Prices(1_250_000, 125_000, 7_500_000)}),
)
TIERED_RETAIL = replace(
    Prices(2_600_000, 260_000, 15_600_000),
    tiers=(Tier(272_000, Prices(5_200_000, 520_000, 23_400_000)),),
    service_tiers=MappingProxyType({"flex": Prices(1_300_000, 130_000, 7_800_000)}),
)
PART = replace(
    Prices(1_000_000, 100_000, 2_000_000),
    tiers=(Tier(1_000, Prices(3_000_000, 300_000, 6_000_000), whole_call=False),),
)
PART_RETAIL = replace(
    Prices(1_040_000, 104_000, 2_080_000),
    tiers=(Tier(1_000, Prices(3_120_000, 312_000, 6_240_000), whole_call=False),),
)
WRITES = Prices(3_000_000, 300_000, 15_000_000, 3_750_000, cache_write_1h_microusd_per_mtok=6_000_000)
WRITES_RETAIL = Prices(3_120_000, 312_000, 15_600_000, 3_900_000, cache_write_1h_microusd_per_mtok=6_240_000)
SOUND = replace(SMALL, audio_input_microusd_per_mtok=10_000_000, audio_output_microusd_per_mtok=20_000_000)
SOUND_RETAIL = replace(
    SMALL_RETAIL, audio_input_microusd_per_mtok=10_400_000, audio_output_microusd_per_mtok=20_800_000
)
SEARCH = replace(SMALL, per_search_microusd_per_m=10_000_000_000)
SEARCH_RETAIL = replace(SMALL_RETAIL, per_search_microusd_per_m=10_400_000_000)
REPORTED: dict[str, Any] = {"cost": "reported", "markup_percent": Decimal(4)}

CASES: dict[str, tuple[Prices, Prices, dict[str, Any], Usage, int, int]] = {
    # 1,000 at $2.50 and 100 at $15 a million.
    "plain": (TIERED, TIERED_RETAIL, {}, Usage(1_000, 100, 1_100), 4_000_000, 4_160_000),
    # Above 272,000 all of it: 100,000 at $5, 200,000 at $0.50 and 1,000 at $22.50.
    "long": (TIERED, TIERED_RETAIL, {}, Usage(300_000, 1_000, 301_000, 200_000), 622_500_000, 647_400_000),
    "flex": (TIERED, TIERED_RETAIL, {}, Usage(1_000, 1_000, service_tier="flex"), 8_750_000, 9_100_000),
    "tier without a price": (
        TIERED,
        TIERED_RETAIL,
        {},
        Usage(1_000, 100, service_tier="batch"),
        4_000_000,
        4_160_000,
    ),
    # 1,000 at $1, the 500 above at $3, and the answer at $6.
    "part above": (PART, PART_RETAIL, {}, Usage(1_500, 10), 2_560_000, 2_662_400),
    # 2,000 at $3.75, and 1,000 for an hour at $6.
    "writes": (
        *(WRITES, WRITES_RETAIL, {}),
        Usage(3_000, 0, cache_write_tokens=3_000, cache_write_1h_tokens=1_000),
        *(13_500_000, 14_040_000),
    ),
    # 60 at $0.15, 40 at $10, 15 at $0.60, 5 at $20.
    "sound": (
        SOUND,
        SOUND_RETAIL,
        {},
        Usage(100, 20, audio_input_tokens=40, audio_output_tokens=5),
        518_000,
        538_720,
    ),
    "searches": (SEARCH, SEARCH_RETAIL, {}, Usage(1_000, 0, searches=2), 20_150_000, 20_956_000),
    # 9 at $0.15, and 10 + 5 at $0.60.
    "reasoning beside": (
        *(SMALL, SMALL_RETAIL, {"family": Family("beside", reasoning_beside_completion=True)}),
        *(Usage(9, 10, 24, reasoning_tokens=5), 10_350, 10_764),
    ),
    "reported": (
        SMALL,
        SMALL_RETAIL,
        REPORTED,
        Usage(1_000, 100, reported_nanousd=500_000),
        500_000,
        520_000,
    ),
    "reported as nothing": (SMALL, SMALL_RETAIL, REPORTED, Usage(1_000, 100, reported_nanousd=0), 0, 0),
    "not reported": (SMALL, SMALL_RETAIL, REPORTED, Usage(1_000, 100), 210_000, 218_400),
    "kept beside": (SMALL, SMALL_RETAIL, {}, Usage(1_000, 100, reported_nanousd=7), 210_000, 218_400),
    # 0.499 and 0.5 nano-USD.
    "rounded down": (Prices(1, 1, 1), Prices(1, 1, 1), {}, Usage(499, 0), 0, 0),
    "rounded up": (Prices(1, 1, 1), Prices(1, 1, 1), {}, Usage(499, 1), 1, 1),
}
USED_NOTHING: dict[str, Any] = {
    "usage": Usage(),
    "usage_source": "none",
    "wholesale_nanousd": 0,
    "retail_nanousd": 0,
}


def case_row(case: str, **facts: Any) -> dict[str, Any]:
    prices, retail, model, usage, wholesale_nanousd, retail_nanousd = CASES[case]
    costs = {"wholesale_nanousd": wholesale_nanousd, "retail_nanousd": retail_nanousd}
    return make_priced_row(case, prices, retail=retail, model=model, **{"usage": usage} | costs | facts)


def write(connection: sqlite3.Connection, row: dict[str, Any]) -> None:
    write_call(connection, Settlement(row, from_wallet=False))


@pytest.fixture
def ledger() -> Iterator[sqlite3.Connection]:
    """A ledger with all cases, a failed call and one with a customer's own key."""
    with open_ledger() as connection:
        for case in CASES:
            write(connection, case_row(case))
        write(connection, make_priced_row("failed", SMALL, **USED_NOTHING))
        write(connection, make_priced_row("own key", byok=True, wholesale_nanousd=0, retail_nanousd=0))
        yield connection


def test_costs_by_hand_are_those_of_the_check(ledger: sqlite3.Connection) -> None:
    assert list(find_wrong_costs(ledger)) == []
    assert count_not_kept(ledger) == 0
    sets = {name for (name,) in ledger.execute("SELECT DISTINCT price_set FROM usage WHERE mode = 'payg'")}
    assert sets == {name for (name,) in ledger.execute("SELECT hash FROM prices")}
    assert ledger.execute("SELECT price_set FROM usage WHERE mode = 'byok'").fetchall() == [(None,)]


@pytest.mark.parametrize(
    ("call", "change", "words"),
    [
        (
            "plain",
            "retail_nanousd = 4160001",
            "4000000 nano-USD wholesale and 4160001 retail are recorded; its counts",
        ),
        ("plain", "wholesale_nanousd = 3999999", "cost 4000000 and 4160000 at its price set"),
        ("plain", "prompt_tokens = prompt_tokens + 1", "its counts cost 4002500 and 4162600"),
        ("long", "cached_tokens = cached_tokens - 1", "622504500"),
        ("long", "prompt_tokens = 272000", "cost 245000000 and 254800000"),
        ("flex", "service_tier = NULL", "cost 17500000 and 18200000"),
        ("part above", "completion_tokens = 11", "cost 2566000"),
        ("writes", "cache_write_1h_tokens = NULL", "cost 11250000"),
        ("writes", "cache_write_tokens = NULL", "cost 9000000"),
        ("sound", "audio_input_tokens = 39", "cost 508150"),
        ("sound", "audio_output_tokens = 4", "cost 498600"),
        ("searches", "searches = 3", "cost 30150000"),
        ("reasoning beside", "reasoning_tokens = 6", "cost 10950"),
        ("reported", "reported_nanousd = 500001", "cost 500001 and 520001"),
        ("reported", "reported_nanousd = NULL", "cost 210000"),
        ("plain", "price_set = (SELECT price_set FROM usage WHERE id = 'sound')", "cost 210000"),
        ("plain", "price_set = NULL", "it names no price set"),
        ("plain", f"price_set = '{'0' * 32}'", f"its price set {'0' * 32} is missing"),
        ("own key", "retail_nanousd = 5", "it had a customer's own key, but has a price"),
        (
            "own key",
            "price_set = (SELECT max(hash) FROM prices)",
            "it had a customer's own key, but has a price",
        ),
        ("failed", "wholesale_nanousd = 0, prompt_tokens = 10", "cost 1500"),
    ],
)
def test_each_change_of_a_row_names_it(
    ledger: sqlite3.Connection, call: str, change: str, words: str
) -> None:
    ledger.execute(f"UPDATE usage SET {change} WHERE id = ?", (call,))
    [line] = find_wrong_costs(ledger)
    assert line.startswith(f"call {call}: ")
    assert words in line


def test_a_changed_price_names_its_set_and_its_calls(
    ledger: sqlite3.Connection,
) -> None:
    name = case_row("part above")["price_set"]
    ledger.execute(
        "UPDATE prices SET content = replace(content, '1000000', '1000001') WHERE hash = ?", (name,)
    )
    assert list(find_wrong_costs(ledger)) == [
        f"price set {name}: its content was changed",
        f"call part above: its price set {name} was changed",
    ]


def test_a_set_that_is_unreadable_or_gone_names_its_calls(ledger: sqlite3.Connection) -> None:
    unreadable, gone = hash_content("[]"), case_row("sound")["price_set"]
    ledger.execute(
        "UPDATE prices SET hash = ?, content = '[]' WHERE hash = ?",
        (unreadable, case_row("writes")["price_set"]),
    )
    ledger.execute("UPDATE usage SET price_set = ? WHERE id = 'writes'", (unreadable,))
    ledger.execute("DELETE FROM prices WHERE hash = ?", (gone,))
    assert list(find_wrong_costs(ledger)) == [
        f"price set {unreadable}: it is no price set: TypeError",
        f"call sound: its price set {gone} is missing",
        f"call writes: its price set {unreadable} was changed",
    ]


def test_a_table_of_sets_that_is_gone_is_named(ledger: sqlite3.Connection) -> None:
    ledger.execute("DROP TABLE prices")
    assert [*find_wrong_costs(ledger)] == ["prices: the table is missing"]
    assert count_not_kept(ledger) == 0


def test_rows_of_earlier_versions_are_left_out_and_counted(ledger: sqlite3.Connection) -> None:
    write(ledger, make_row("earlier", retail_nanousd=123))
    assert list(find_wrong_costs(ledger)) == []
    assert count_not_kept(ledger) == 1


def test_a_ledger_that_no_gateway_of_this_version_has_opened_has_no_prices() -> None:
    steps = Migrations("tollgate")
    for step in STEPS[: STEPS.index(m0019_price_sets)]:
        steps()(step)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as earlier:
        steps.apply(Database(earlier))
        row = make_row("earlier", retail_nanousd=123)
        for later in ("price_set", "platform_key", "tags", "deployment", "budgets", "api"):
            del row[later]
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        earlier.execute(f"INSERT INTO usage ({columns}) VALUES ({marks})", row)
        assert (count_not_kept(earlier), list(find_wrong_costs(earlier))) == (1, [])
        migrate(earlier)
        assert (count_not_kept(earlier), list(find_wrong_costs(earlier))) == (1, [])


@pytest.mark.parametrize("moment", ["WITH sets", "SELECT hash, content"])
async def test_a_call_that_ends_during_the_check_is_no_discrepancy(
    store: Store, ledger_path: Path, moment: str
) -> None:
    with second_connection(ledger_path) as writer, second_connection(ledger_path) as reader:
        write(writer, case_row("plain"))

        def end_a_call(statement: str) -> None:
            if statement.strip().startswith(moment):
                write(writer, case_row("sound"))

        reader.set_trace_callback(end_a_call)
        assert list(find_wrong_costs(reader)) == []
        reader.set_trace_callback(None)
        assert reader.execute("SELECT count(*) FROM usage").fetchone()[0] == 2


def test_many_wrong_calls_are_counted_and_some_are_named(
    ledger: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(price_check, "MAX_NAMED", 2)
    ledger.execute("UPDATE usage SET price_set = NULL WHERE mode = 'payg'")
    *named, last = find_wrong_costs(ledger)
    assert len(named) == 2
    assert last == f"and {len(CASES) - 1} more calls do not agree with their prices"


def test_a_later_version_of_the_rounding_is_not_guessed(ledger: sqlite3.Connection) -> None:
    content = case_row("plain")[PRICE_SET_CONTENT].replace('"rounding":1', '"rounding":2')
    later = (hash_content(content), "2026-01-31T12:00:00.000+00:00", "later", content)
    ledger.execute("INSERT INTO prices VALUES (?, ?, ?, ?)", later)
    assert list(find_wrong_costs(ledger)) == [f"price set {later[0]}: version 2 of the rounding is not known"]


def test_two_sets_of_one_model_are_each_right_for_their_calls() -> None:
    dearer = replace(SMALL, output_microusd_per_mtok=700_000)
    with open_ledger() as connection:
        for call_id, prices, cost in (("before", SMALL, 210_000), ("after", dearer, 220_000)):
            costs = {"wholesale_nanousd": cost, "retail_nanousd": cost, "usage": Usage(1_000, 100)}
            write(connection, make_priced_row(call_id, prices, **costs))
        assert list(find_wrong_costs(connection)) == []
        connection.execute("UPDATE usage SET price_set = (SELECT price_set FROM usage WHERE id = 'before')")
        [line] = find_wrong_costs(connection)
        assert line.startswith("call after: 220000 ")
        contents = connection.execute("SELECT content FROM prices").fetchall()
    kept = [PriceSet.parse(content).wholesale for (content,) in contents]
    assert sorted(prices.output_microusd_per_mtok for prices in kept) == [600_000, 700_000]
