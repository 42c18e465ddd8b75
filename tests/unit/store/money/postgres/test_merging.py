"""The sums of PostgreSQL are those of its rows at every moment: while several processes write, and others merge."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr
from rig.stores import StoreLocation, request, settlement

from addon.store.money.postgres.merging import ROWS, merge
from addon.store.money.postgres.money import PostgresMoney
from addon.store.money.postgres.sum_schema import COUNTER_PARTS, PARTS
from addon.store.money.postgres.transactions import Transactions
from addon.store.money.reports.distribution import add_buckets
from addon.store.money.sums.rollup_schema import HOURS, TABLES, RollupTable, add_up, bucket_of
from policies.exchange import INTERRUPTED

DAY = "2026-11-21"
MODELS = ("gpt-4o", "claude", "gemini")


@pytest.fixture
def location(postgres_ledger_url: str, tmp_path: Any) -> StoreLocation:
    return StoreLocation(tmp_path / "rates.db", postgres=postgres_ledger_url)


@pytest.fixture
async def processes(postgres_ledger_url: str) -> AsyncIterator[list[PostgresMoney]]:
    """Three gateways on one PostgreSQL."""
    async with AsyncExitStack() as opened:
        several = [PostgresMoney(SecretStr(postgres_ledger_url)) for _ in range(3)]
        for one in several:
            opened.push_async_callback(one.close)
            await one.check()
        yield several


@pytest.fixture
async def merging(postgres_ledger_url: str) -> AsyncIterator[Transactions]:
    transactions = Transactions(SecretStr(postgres_ledger_url))
    yield transactions
    await transactions.close()


def kept(ledger: psycopg.Connection[Any], table: RollupTable, until: str) -> dict[Any, Any]:
    """Return the groups of a table, as a report reads them."""
    lists = [f"group_concat({name})" for name in table.buckets]
    columns = ", ".join([*table.groups, *table.sums, *lists])
    everything = ", ".join([*table.groups, *table.sums])
    sql = f"SELECT {columns} FROM {table.name} WHERE {table.period} < '{until}' GROUP BY {everything}"
    return split(table, ledger.execute(sql).fetchall())


def counted(ledger: psycopg.Connection[Any], table: RollupTable, until: str) -> dict[Any, Any]:
    """Return the groups of a table, as its calls give them."""
    sums = [add_up(value) for value in table.sums.values()]
    lists = [f"group_concat(iif({one} IS NULL, NULL, {bucket_of(one)}))" for one in table.buckets.values()]
    columns = ", ".join([*table.groups.values(), *sums, *lists])
    sql = (
        f"SELECT {columns} FROM usage AS call WHERE created_at < '{until}'"
        f" GROUP BY {', '.join(table.groups.values())}"
    )
    return split(table, ledger.execute(sql).fetchall())


def split(table: RollupTable, rows: list[Any]) -> dict[Any, Any]:
    groups, sums = len(table.groups), len(table.groups) + len(table.sums)
    found = {}
    for row in rows:
        distributions = [Counter[int]() for _ in table.buckets]
        for counts, listed in zip(distributions, row[sums:], strict=True):
            add_buckets(counts, listed)
        assert row[:groups] not in found, "each group has one row"
        found[row[:groups]] = ([int(value) for value in row[groups:sums]], distributions)
    return found


def assert_exact(url: str) -> None:
    """Compare every table with the rows of the same moment."""
    with psycopg.connect(url) as ledger:
        ledger.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        [[days_until]] = ledger.execute("SELECT days_until FROM rollup_progress").fetchall()
        for table in TABLES:
            until = "~" if table is HOURS else days_until
            # A day that has not ended is in the tables by day with its ended hours alone.
            assert kept(ledger, table, until or "~") == counted(ledger, table, until), table.name


async def test_sums_follow_rows_that_change(
    processes: list[PostgresMoney], merging: Transactions, location: StoreLocation, postgres_ledger_url: str
) -> None:
    first, second, third = processes
    await first.settle(settlement("a", first_byte_ms=None, duration_ms=5))
    await second.settle(settlement("a2", status=502, error_code="upstream_error", usage_source="estimated"))
    await second.settle(
        settlement("b", 0, status=499, error_code=INTERRUPTED, usage_source="none", duration_ms=0)
    )
    assert_exact(postgres_ledger_url)
    assert not await merge(merging, f"{DAY}T10")
    assert_exact(postgres_ledger_url)
    await third.settle(settlement("b", 700))
    assert_exact(postgres_ledger_url)
    assert_small(postgres_ledger_url, 2)
    assert not await merge(merging, f"{DAY}T10")
    assert_exact(postgres_ledger_url)
    assert_small(postgres_ledger_url, 0)
    location.select("WITH gone AS (DELETE FROM usage WHERE id = 'a' RETURNING id) SELECT id FROM gone")
    assert_exact(postgres_ledger_url)
    location.select(
        "WITH moved AS (UPDATE usage SET created_at = '2026-12' || substr(created_at, 8)"
        " WHERE id = 'b' RETURNING id) SELECT id FROM moved"
    )
    assert_exact(postgres_ledger_url)
    assert not await merge(merging, "2026-12-22T00")
    assert_exact(postgres_ledger_url)


def assert_small(url: str, parts: int) -> None:
    """Expect this many parts, and counters that are merged when there are none."""
    with psycopg.connect(url) as ledger:
        assert ledger.execute(f"SELECT count(*) FROM {PARTS}").fetchall() == [(parts,)]
        if not parts:
            assert ledger.execute(f"SELECT DISTINCT writer FROM {COUNTER_PARTS}").fetchall() == [(0,)]


async def test_calls_removed_into_a_file_stay_in_the_sums(
    processes: list[PostgresMoney], postgres_ledger_url: str
) -> None:
    for number in range(3):
        await processes[0].settle(settlement(f"call {number}"))
    with psycopg.connect(postgres_ledger_url) as ledger:
        before = kept(ledger, HOURS, "~")
        ledger.execute("INSERT INTO archive_removal VALUES ('2026-11')")
        ledger.execute("DELETE FROM usage WHERE id <> 'call 2'")
        ledger.execute("DELETE FROM archive_removal")
        assert kept(ledger, HOURS, "~") == before
        ledger.execute("INSERT INTO archives (month, file) VALUES ('2026-11', 'file')")
    await processes[1].settle(settlement("late"))
    with psycopg.connect(postgres_ledger_url) as ledger:
        assert ledger.execute("SELECT id FROM late_calls").fetchall() == [("late",)]
        ledger.execute("DELETE FROM usage")
        assert ledger.execute("SELECT id FROM late_calls").fetchall() == []


@pytest.mark.parametrize("seed", range(3))
async def test_any_order_of_calls_and_merges(
    processes: list[PostgresMoney],
    merging: Transactions,
    location: StoreLocation,
    postgres_ledger_url: str,
    seed: int,
) -> None:
    chance = random.Random(seed)

    async def run_call(name: str) -> None:
        hour = chance.choice((7, 8, 9))
        at = datetime(2026, 11, 21, hour, chance.randrange(60), tzinfo=UTC)
        who = {"workspace": chance.choice(("acme", "beta")), "key_id": chance.choice(("ci", "web"))}
        first, last = chance.sample(processes, 2)
        await first.hold(request(name, created_at=at, **who))
        moment = at.isoformat(timespec="milliseconds")
        facts = {"created_at": moment, "model_slug": chance.choice(MODELS), **who}
        facts |= {"first_byte_ms": chance.choice((None, 3, 900)), "duration_ms": chance.randrange(1, 40_000)}
        if chance.random() < 0.3:
            await first.settle(
                settlement(
                    name,
                    0,
                    **facts
                    | {"status": 499, "duration_ms": 0, "usage_source": "none", "error_code": INTERRUPTED},
                )
            )
        await last.settle(settlement(name, chance.randrange(5_000), **facts))

    async def merge_at_any_moment() -> None:
        for until in ("08", "07", "09", "10"):
            await merge(merging, f"{DAY}T{until}")
            await asyncio.to_thread(assert_exact, postgres_ledger_url)

    calls = [run_call(f"call {number}") for number in range(60)]
    await asyncio.gather(*calls, merge_at_any_moment())
    assert_exact(postgres_ledger_url)
    await merge(merging, f"{DAY}T10")
    assert_exact(postgres_ledger_url)
    assert_small(postgres_ledger_url, 0)
    assert await location.discrepancies() == []


async def test_a_step_is_bounded(
    processes: list[PostgresMoney], merging: Transactions, postgres_ledger_url: str
) -> None:
    with psycopg.connect(postgres_ledger_url, autocommit=True) as ledger:
        ledger.execute(
            f"INSERT INTO {COUNTER_PARTS} SELECT 'workspace:' || n, '2026-11', 1, 1, 7"
            " FROM generate_series(1, %s) AS n",
            (ROWS + 5,),
        )
        assert await merge(merging, DAY)
        assert not await merge(merging, DAY)
        found = ledger.execute("SELECT count(*), sum(requests)::bigint FROM spend").fetchall()
    assert found == [(ROWS + 5, ROWS + 5)]


async def test_only_one_process_merges(
    processes: list[PostgresMoney], merging: Transactions, postgres_ledger_url: str
) -> None:
    await processes[0].settle(settlement("a"))
    with psycopg.connect(postgres_ledger_url) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtextextended('tollgate:merging', 0))")
        assert not await merge(merging, f"{DAY}T10")
        assert_small(postgres_ledger_url, 1)
    assert not await merge(merging, f"{DAY}T10")
    assert_small(postgres_ledger_url, 0)


async def test_a_call_that_is_written_now_is_merged_later(
    processes: list[PostgresMoney], merging: Transactions, postgres_ledger_url: str
) -> None:
    await processes[0].settle(settlement("a"))
    await processes[1].settle(settlement("b"))
    with psycopg.connect(postgres_ledger_url) as writer:
        writer.execute(f"SELECT 1 FROM {PARTS} ORDER BY writer LIMIT 1 FOR UPDATE")
        assert not await merge(merging, f"{DAY}T10")
    assert_small(postgres_ledger_url, 1)
    assert_exact(postgres_ledger_url)
