"""The migrations of a ledger: older files, files of a newer version, and a second start."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from rig.ledger import make_row, read_ids, read_rows, second_connection
from rig.sqlite_stores import open_settle_and_close
from sqlite_utils import Database, Migrations

from addon.store.money.priced_columns import PRICED_COLUMNS
from addon.store.money.sqlite.early_migration_steps import m0006_passed_over
from addon.store.money.sqlite.migration_steps import STEPS, m0014_newest_days_first, m0020_short_triggers
from addon.store.money.sqlite.migrations import migrate
from addon.store.money.sqlite.store import SqliteStore
from addon.store.money.sums.rollup_schema import ENDED_TABLES, FIRST_TABLES, TABLES, RollupTable
from addon.store.protocol import Settlement, StoreUnavailable


def test_a_second_start_finds_the_rows_and_applies_no_step_twice(ledger_path: Path) -> None:
    ledger_path.parent.mkdir()
    ledger_path.touch()
    for row_id in ("first", "second"):
        open_settle_and_close(ledger_path, row_id)
    assert read_ids(ledger_path) == ["first", "second"]
    with second_connection(ledger_path) as reader:
        taken = [row["name"] for row in reader.execute("SELECT name FROM _sqlite_migrations ORDER BY id")]
        assert taken == [step.__name__ for step in STEPS]
        assert reader.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


async def test_a_ledger_from_before_skipped_providers_keeps_its_rows_and_accepts_new_ones(
    ledger_path: Path,
) -> None:
    ledger_path.parent.mkdir()
    earlier = Migrations("tollgate")
    for step in STEPS[: STEPS.index(m0006_passed_over)]:
        earlier()(step)
    with second_connection(ledger_path) as before:
        earlier.apply(Database(before))
        row = make_row("old") | {"cache_write_tokens": 7}
        for later in (
            "client_request_id",
            "resends",
            *PRICED_COLUMNS,
            "price_set",
            "platform_key",
            "tags",
            "deployment",
            "budgets",
            "api",
        ):
            del row[later]
        columns, marks = ", ".join(row), ", ".join("?" * len(row))
        before.execute(f"INSERT INTO usage ({columns}) VALUES ({marks})", tuple(row.values()))
        indexes = before.execute(_INDEXES).fetchall()
        before.commit()
    store = SqliteStore(ledger_path)
    await store.settle(Settlement(make_row("new") | {"fallback": 1, "attempts": 1}, from_wallet=False))
    await store.close()
    kept, new = read_rows(ledger_path)
    later_columns = {"client_request_id": None, "resends": 0, **dict.fromkeys(PRICED_COLUMNS)}
    assert kept == row | later_columns | {
        "price_set": "not kept",
        "platform_key": None,
        "tags": None,
        "deployment": None,
        "budgets": None,
        "api": "chat",
    }
    assert (new["id"], new["fallback"], new["attempts"]) == ("new", 1, 1)
    with second_connection(ledger_path) as after:
        assert [tuple(index) for index in after.execute(_INDEXES)] == [tuple(index) for index in indexes]


_ROLLUPS_DIGEST = "f6c71b24db9b44e65ec74ef1af165ea519910ed8b4eaec4325ba6e92d9324beb"
_INDEXES = "SELECT name, sql FROM sqlite_schema WHERE tbl_name = 'usage' AND type = 'index' ORDER BY name"


def test_the_step_that_made_the_rollups_stays_as_it_was_released() -> None:
    """It is made from ``rollup_schema``. When that changes, a new step replaces its tables and triggers."""
    made = "\n".join(sql for table in FIRST_TABLES for sql in (table.creation(), *table.triggers()))
    assert sha256(made.encode()).hexdigest() == _ROLLUPS_DIGEST


async def test_a_ledger_of_a_newer_version_is_not_opened(ledger_path: Path) -> None:
    await SqliteStore(ledger_path).close()
    with second_connection(ledger_path) as other:
        other.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('tollgate', 'm9999', '')"
        )
    with pytest.raises(StoreUnavailable, match=r"newer version changed it \(m9999\)"):
        SqliteStore(ledger_path)


@pytest.mark.parametrize(
    ("step", "tables"), [(m0014_newest_days_first, ENDED_TABLES), (m0020_short_triggers, TABLES)]
)
def test_triggers_that_an_earlier_version_made_are_replaced(
    ledger_path: Path, step: Callable[[Database], None], tables: Sequence[RollupTable]
) -> None:
    ledger_path.parent.mkdir()
    earlier = Migrations("tollgate")
    for one in STEPS[: STEPS.index(step)]:
        earlier()(one)
    names = [f"{table.name}_{event}" for table in tables for event in ("INSERT_NEW", "DELETE_OLD")]
    with second_connection(ledger_path) as before:
        earlier.apply(Database(before))
        for name in names:
            event = name.rpartition("_")[0].rpartition("_")[2]
            before.execute(f"DROP TRIGGER IF EXISTS {name}")
            before.execute(f"CREATE TRIGGER {name} AFTER {event} ON usage BEGIN SELECT 'earlier'; END")
    open_settle_and_close(ledger_path, "new")
    with second_connection(ledger_path) as after:
        triggers = dict(after.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"))
    assert set(names) <= set(triggers)
    assert not any("earlier" in sql for sql in triggers.values())


def test_the_entries_of_one_wallet_are_found_by_an_index(ledger_path: Path) -> None:
    open_settle_and_close(ledger_path)
    with second_connection(ledger_path) as reader:
        sql = "SELECT * FROM wallet_entries WHERE workspace = 'acme' ORDER BY created_at"
        [step] = reader.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()
    assert "USING INDEX wallet_entries_workspace" in step["detail"]


def test_a_migration_that_fails_leaves_nothing_behind() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE alerts (id)")
        with pytest.raises(sqlite3.OperationalError, match="table alerts already exists"):
            migrate(connection)
        assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("alerts",)]
