"""Migrations only add, and gateways of several versions share the tables while ``min_reader`` allows it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import date

import psycopg
import pytest
from pydantic import SecretStr

from addon.store.money.postgres.schema import MIGRATIONS, TABLES_LOCK, Migration
from addon.store.money.postgres.tables import prepare
from addon.store.money.postgres.transactions import Transactions
from addon.store.protocol import StoreUnavailable

TODAY = date(2026, 11, 21)
ADDED = Migration(("CREATE TABLE later (id bigint)", "INSERT INTO later VALUES (1)"))
CHANGED = Migration(("DROP TABLE later",), min_reader=len(MIGRATIONS) + 2)


@pytest.fixture
async def transactions(postgres_url: str) -> AsyncIterator[Transactions]:
    opened = Transactions(SecretStr(postgres_url))
    yield opened
    await opened.close()


async def test_each_migration_is_applied_once_and_an_older_version_goes_on(
    transactions: Transactions, postgres_url: str
) -> None:
    made = await prepare(transactions, TODAY)
    newer = (*MIGRATIONS, ADDED)
    for _ in range(2):
        assert await prepare(transactions, TODAY, newer) == made
    assert await prepare(transactions, TODAY) == made
    with psycopg.connect(postgres_url) as ledger:
        assert ledger.execute("SELECT id FROM later").fetchall() == [(1,)]
        found = ledger.execute("SELECT id, min_reader, version FROM ledger").fetchall()
    assert found == [(made, 1, len(newer))]


async def test_an_older_version_does_not_start_on_tables_that_it_can_not_read(
    transactions: Transactions,
) -> None:
    newest = (*MIGRATIONS, ADDED, CHANGED)
    made = await prepare(transactions, TODAY, newest)
    for older in (MIGRATIONS, newest[:-1]):
        with pytest.raises(StoreUnavailable, match="a newer version of Tollgate has changed its tables"):
            await prepare(transactions, TODAY, older)
    assert await prepare(transactions, TODAY, newest) == made


async def test_partitions_are_made_ahead_while_a_report_reads(
    transactions: Transactions, postgres_url: str
) -> None:
    await prepare(transactions, TODAY)
    with psycopg.connect(postgres_url) as report:
        report.execute("SELECT count(*) FROM usage")
        await prepare(transactions, date(2026, 12, 1))
        made = "SELECT relid::regclass::text FROM pg_partition_tree('usage') WHERE isleaf ORDER BY 1"
        names = [name for (name,) in report.execute(made)]
        assert names == [
            f"usage_{month}" for month in ("2026_11", "2026_12", "2027_01", "2027_02", "2027_03")
        ]


async def test_an_earlier_ledger_gets_what_was_added_in_all_its_months(
    transactions: Transactions, postgres_url: str
) -> None:
    made = await prepare(transactions, TODAY, MIGRATIONS[:1])
    assert await prepare(transactions, TODAY) == made
    assert await prepare(transactions, TODAY, MIGRATIONS[:1]) == made
    with psycopg.connect(postgres_url) as ledger:
        assert ledger.execute("SELECT tags, deployment, api FROM usage_2026_11").fetchall() == []
        # As a gateway of an earlier version counts, which still serves.
        for _ in range(2):
            ledger.execute(_COUNT_AS_BEFORE)
        found = ledger.execute("SELECT count, messages, responses, embeddings FROM refusals").fetchall()
        assert found == [(2, 0, 0, 0)]


_COUNT_AS_BEFORE = """
    INSERT INTO refusals (hour, workspace, key_id, code, count) VALUES ('2026-11-21T10', 'acme', 'ci', 'no_route', 1)
    ON CONFLICT (hour, workspace, key_id, code) DO UPDATE SET count = refusals.count + excluded.count
"""


async def test_who_comes_while_another_makes_the_tables_waits_longer_than_a_call(
    transactions: Transactions, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url) as other:
        other.execute(f"SELECT pg_advisory_xact_lock({TABLES_LOCK})")
        waiting = asyncio.create_task(prepare(transactions, TODAY))
        await asyncio.to_thread(_wait_for_one_that_waits_long, postgres_url)
    await waiting


def _wait_for_one_that_waits_long(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as observer:
        for _ in range(100):
            if observer.execute(_WAITS_LONG).fetchall():
                return
            observer.execute("SELECT pg_sleep(0.05)")
    pytest.fail("nobody waits so long")


_WAITS_LONG = """
    SELECT FROM pg_stat_activity
    WHERE wait_event = 'advisory' AND clock_timestamp() > query_start + interval '1100 ms'
"""
