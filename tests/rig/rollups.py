"""Ledgers in memory for tests of rollups: with rows from before there were rollups, and random rows."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from hypothesis import strategies as st
from sqlite_utils import Database, Migrations

from addon.store.ledger.migration_steps import LARGEST, STEPS, m0007_rollups
from addon.store.ledger.migrations import migrate
from addon.store.ledger.rollups import build_step, is_behind
from addon.store.ledger.rows import make_storable, write_call
from addon.store.protocol import Settlement
from rig.ledger import make_row

NOW = datetime(2026, 1, 31, 14, 20, tzinfo=UTC)
INTERRUPTED: dict[str, Any] = {
    "status": 499,
    "error_code": "interrupted",
    "usage_source": "none",
    "duration_ms": 0,
    "first_byte_ms": None,
    "prompt_tokens": None,
    "completion_tokens": None,
    "total_tokens": None,
    "wholesale_nanousd": 0,
    "retail_nanousd": 0,
}


BEFORE_ROLLUPS = STEPS[: STEPS.index(m0007_rollups)]


@cache
def _ledger_before_rollups() -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        old = Migrations("tollgate")
        for step in BEFORE_ROLLUPS:
            old()(step)
        old.apply(Database(connection))
        return connection.serialize()


@cache
def _migrated_ledger() -> bytes:
    """The ledger of a version without rollups, migrated while it had no row."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.deserialize(_ledger_before_rollups())
        migrate(connection)
        return connection.serialize()


@contextmanager
def open_ledger(earlier: Sequence[dict[str, Any]] = (), steps: int = 0) -> Iterator[sqlite3.Connection]:
    """Open a new ledger in memory. It had the rows ``earlier`` before it had rollups.

    The rollups were built for so many short steps.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.deserialize(_ledger_before_rollups() if earlier else _migrated_ledger())
        for row in earlier:
            _write_earlier(connection, row)
        migrate(connection)
        for _ in range(steps):
            build_step(connection, NOW, 3)
        yield connection


def _write_earlier(connection: sqlite3.Connection, row: dict[str, Any]) -> None:
    """Write a row into a ledger of an older version, without the columns that came later."""
    columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(usage)")]
    names, values = ", ".join(columns), ", ".join(f":{name}" for name in columns)
    connection.execute(
        f"INSERT INTO usage ({names}) VALUES ({values}) ON CONFLICT (id) DO NOTHING", make_storable(row)
    )


def write(connection: sqlite3.Connection, row: dict[str, Any]) -> None:
    write_call(connection, Settlement(row, from_wallet=False))


def build_all(connection: sqlite3.Connection, rows: int = 3) -> int:
    """Build until nothing is left. Return the number of steps."""
    steps = 0
    while is_behind(connection, NOW):
        build_step(connection, NOW, rows)
        steps += 1
    return steps


MOMENTS = st.integers(0, 4 * 24 * 12).map(lambda step: NOW - timedelta(minutes=5 * step))
ROWS = st.builds(
    lambda number, moment, changes: (
        make_row(f"call-{number}", created_at=moment.isoformat(timespec="milliseconds")) | changes
    ),
    st.integers(0, 15),
    MOMENTS,
    st.one_of(
        st.just(INTERRUPTED),
        st.fixed_dictionaries(
            {
                "workspace": st.sampled_from(["acme", "beta"]),
                "key_id": st.sampled_from(["ci", "web"]),
                "model_slug": st.sampled_from(["large", "small"]),
                "mode": st.sampled_from(["payg", "byok"]),
                "status": st.sampled_from([200, 429, 502]),
                "usage_source": st.sampled_from(["provider", "estimated"]),
                "prompt_tokens": st.one_of(st.none(), st.integers(0, LARGEST)),
                "first_byte_ms": st.one_of(st.none(), st.integers(0, 4_000_000)),
                "duration_ms": st.integers(1, 4_000_000),
            }
        ),
    ),
)
