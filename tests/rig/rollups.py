"""Ledgers in memory for tests of rollups: with rows from before there were rollups, and random rows."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from hypothesis import strategies as st

from addon.store.money.sqlite.early_migration_steps import LARGEST
from addon.store.money.sqlite.migrations import migrate
from addon.store.money.sums.rollup_schema import AFTER_ALL
from addon.store.money.sums.rollups import HOUR_DIGITS, Progress, build_step, is_behind
from addon.store.protocol import Settlement
from rig.ledger import make_row
from rig.written_rows import write_call

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


@cache
def _new_ledger() -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        return connection.serialize()


_idle: list[sqlite3.Connection] = []
"""Connections to ledgers without rows. To read the schema takes a new connection 6 ms of CPU."""


@contextmanager
def open_ledger(earlier: Sequence[dict[str, Any]] = (), steps: int = 0) -> Iterator[sqlite3.Connection]:
    """Open a new ledger in memory. It had the rows ``earlier`` before it had rollups.

    The rollups were built for so many short steps.
    """
    connection = _idle.pop() if _idle else sqlite3.connect(":memory:", isolation_level=None)
    if not read_schema(connection):
        connection.deserialize(_new_ledger())
    schema = read_schema(connection)
    with ExitStack() as opened:
        opened.callback(connection.close)
        write_earlier(connection, earlier)
        for _ in range(steps):
            build_step(connection, NOW, 3)
        yield connection
        connection.row_factory = None
        if read_schema(connection) == schema and not connection.in_transaction:
            _empty(connection)
            _idle.append(connection)
            opened.pop_all()


def read_schema(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    return connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


def write_earlier(connection: sqlite3.Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write the first rows of a ledger, as the migration to rollups leaves them: in no rollup."""
    _set_progress(connection, NOTHING)
    for row in rows:
        write(connection, row)
    (newest,) = connection.execute("SELECT max(created_at) FROM usage").fetchone()
    after, hour = (newest + AFTER_ALL, newest[:HOUR_DIGITS]) if newest else ("", "")
    _set_progress(connection, Progress(after, hour, hour, after))


NOTHING = Progress(*[AFTER_ALL] * len(Progress._fields))
"""No row is in the rollups, and none that is written gets there."""


def _set_progress(connection: sqlite3.Connection, progress: Progress) -> None:
    names = ", ".join(f"{name} = ?" for name in progress._fields)
    connection.execute(f"UPDATE rollup_progress SET {names}", progress)


KEPT = ("_sqlite_migrations", "ledger", "rollup_progress")


def _empty(connection: sqlite3.Connection) -> None:
    _set_progress(connection, NOTHING)
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    for (name,) in tables:
        if name not in KEPT:
            connection.execute(f"DELETE FROM {name}")


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
