"""Sums of PostgreSQL that were changed are repaired: of merged hours, of later parts of those, and of new hours."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr
from rig.stores import settlement

from addon.store.money.postgres.ledger import PostgresLedger
from addon.store.money.postgres.merging import merge
from addon.store.money.postgres.money import PostgresMoney
from addon.store.money.postgres.recount import repair
from addon.store.money.postgres.transactions import Transactions
from addon.store.money.sums.rollup_check import find_wrong
from addon.store.money.sums.rollup_schema import TABLES

MERGED, LATER = "2026-11-21T09:01:00.000+00:00", "2026-11-21T11:01:00.000+00:00"
EVERY = {f"{table.name} 2026-11-21{'T09' if table.period == 'hour' else ''}" for table in TABLES}
DAMAGES: dict[str, set[str]] = {
    "UPDATE rollups_merged SET calls = 7": {"rollups 2026-11-21T09"},
    "UPDATE rollups_merged SET calls = 0": {"rollups 2026-11-21T09"},
    "UPDATE days_merged SET retail_nanousd = 1": {"days 2026-11-21"},
    "UPDATE model_hours_merged SET duration_buckets = 7": {"model_hours 2026-11-21T09"},
    "DELETE FROM model_days_merged": {"model_days 2026-11-21"},
    "UPDATE key_hours_merged SET hour = '2026-11-20T01'": {
        "key_hours 2026-11-20T01",
        "key_hours 2026-11-21T09",
    },
    "UPDATE rollup_parts SET duration_ms = 1 WHERE hour = '2026-11-21T09'": {"rollups 2026-11-21T09"},
    "DELETE FROM rollup_parts": {*EVERY, "rollups 2026-11-21T11"},
    "UPDATE rollup_parts SET first_byte_buckets = 9 WHERE hour = '2026-11-21T11'": {"rollups 2026-11-21T11"},
    "UPDATE rollups_merged SET hour = '2026-11-21T11'": {"rollups 2026-11-21T09", "rollups 2026-11-21T11"},
    "UPDATE rollups_merged SET hour = '2026-11-22T01'": {"rollups 2026-11-21T09", "rollups 2026-11-22T01"},
}


@pytest.fixture
async def ledger(postgres_url: str) -> Any:
    """A ledger with calls of an hour that is merged, one of it that ended later, and one of a new hour."""
    money, merging = PostgresMoney(SecretStr(postgres_url)), Transactions(SecretStr(postgres_url))
    await money.check()
    for call_id, created_at in (("a", MERGED), ("b", MERGED)):
        await money.settle(settlement(call_id, created_at=created_at, model_slug=f"model-{call_id}"))
    assert not await merge(merging, "2026-11-21T10")
    for call_id, created_at in (("late", MERGED), ("new", LATER)):
        await money.settle(settlement(call_id, created_at=created_at, model_slug="model-a"))
    await money.close()
    await merging.close()
    with psycopg.connect(postgres_url, cursor_factory=psycopg.ClientCursor) as connection:
        yield PostgresLedger(connection)


def wrong_in(ledger: PostgresLedger) -> set[str]:
    return {f"{table.name} {period}" for table, period in find_wrong(ledger)}


def repaired(ledger: PostgresLedger) -> Iterator[str]:
    for one in list(find_wrong(ledger)):
        repair(ledger, one)
        yield f"{one.table.name} {one.period}"


def test_each_damage_is_found_and_repaired(ledger: PostgresLedger) -> None:
    assert wrong_in(ledger) == set()
    for damage, found in DAMAGES.items():
        ledger.execute(damage)
        assert set(repaired(ledger)) == found, damage
        assert wrong_in(ledger) == set(), damage
        ledger.connection.rollback()


async def test_sums_are_right_when_repaired_parts_are_merged(
    ledger: PostgresLedger, postgres_url: str
) -> None:
    for damage in DAMAGES:
        ledger.execute(damage)
    assert set(repaired(ledger)) > EVERY
    ledger.connection.commit()
    merging = Transactions(SecretStr(postgres_url))
    assert not await merge(merging, "2026-11-21T12")
    await merging.close()
    assert wrong_in(ledger) == set()
    assert ledger.execute("SELECT count(*) FROM rollup_parts").fetchone() == (0,)
