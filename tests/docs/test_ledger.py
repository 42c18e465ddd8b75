"""docs/ledger.md agrees with the tables, the indexes and the log."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest
from rig.configuration import ROOT

from addon.store import measured
from addon.store.money import pending_writes
from addon.store.money.refusal_counts import MAX_GROUPS
from addon.store.money.rows import CALL
from addon.store.money.sqlite.early_migration_steps import LARGEST
from addon.store.money.sqlite.engine import KEPT_BATCHES
from addon.store.money.sqlite.migrations import migrate
from policies.exchange import CLIENT_CLOSED_REQUEST, CLIENT_DISCONNECTED, INTERRUPTED, UsageSource

PAGE = (ROOT / "docs" / "ledger.md").read_text()


@pytest.mark.parametrize("table", ["usage", "rollups", "refusals", "wallet_entries", "alerts", "audit"])
def test_every_column_is_documented_with_its_type_in_the_order_of_the_table(table: str) -> None:
    section = PAGE.split(f"## The table `{table}`")[1].split("\n## ")[0]
    documented = re.findall(r"^\| `(\w+)` \| (TEXT|INTEGER) \| (yes|no) \| \S", section, re.MULTILINE)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
    assert documented == [
        (name, kind, "no" if not_null else "yes") for _, name, kind, not_null, *_ in columns
    ]


def test_every_table_is_named() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        tables = [name for (name,) in connection.execute(sql)]
    assert [name for name in tables if f"`{name}`" not in PAGE] == []


def test_every_index_is_documented() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        sql = "SELECT name FROM sqlite_schema WHERE tbl_name = 'usage' AND type = 'index' AND sql IS NOT NULL"
        indexes = [name for (name,) in connection.execute(sql)]
    documented = next(line for line in PAGE.splitlines() if line.startswith("Indexes:"))
    assert re.findall(r"`(\w+)`", documented) == indexes


def test_the_largest_count_is_the_documented_one() -> None:
    assert LARGEST == 10**16
    assert "at most 10¹⁶" in PAGE


def test_the_reference_of_a_calls_cost_is_documented() -> None:
    assert f"| `reference` | TEXT | no | `{CALL}` for a call's cost" in PAGE


def test_the_code_of_a_client_that_left_is_documented() -> None:
    assert f"{CLIENT_CLOSED_REQUEST} when the client left before the end" in PAGE
    assert f"with status {CLIENT_CLOSED_REQUEST} `{CLIENT_DISCONNECTED}`, or `{INTERRUPTED}`" in PAGE


def test_every_source_of_counts_is_documented() -> None:
    table = PAGE.split("## Where the counts come from")[1]
    sources = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sources[:4] == ["usage_source", *get_args(UsageSource)]


LOGGED = {
    "store unavailable": measured,
    "store recovered": measured,
    "ledger unavailable": pending_writes,
    "ledger recovered": pending_writes,
    "ledger row lost": pending_writes,
}


@pytest.mark.parametrize("event", LOGGED)
def test_every_named_event_is_logged(event: str) -> None:
    assert f"`{event}`" in PAGE
    assert f'"event": "{event}"' in Path(str(LOGGED[event].__file__)).read_text()


def test_the_bounds_of_refusals_are_documented() -> None:
    assert f"At most {MAX_GROUPS:,} combinations" in PAGE
    assert f"the ids of the last {KEPT_BATCHES:,} additions" in PAGE
