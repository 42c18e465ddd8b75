"""The ledgers that a copy makes: one transaction in PostgreSQL, or a file that gets its name at the end.

So a copy that is killed, or that does not agree, leaves nothing that a gateway could start on.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

import psycopg

from addon.runtime.atomic_files import sync_path
from addon.store.money.copying.tables import CopiedTable
from addon.store.money.ledger import Ledger
from addon.store.money.postgres.ledger import PostgresLedger, PostgresPlace
from addon.store.money.postgres.schema import partition
from addon.store.money.postgres.sum_schema import COUNTER_PARTS, merged
from addon.store.money.postgres.tables import create
from addon.store.money.sqlite.connection import raising_unavailable
from addon.store.money.sqlite.copies import private_file
from addon.store.money.sqlite.migrations import migrate
from addon.store.money.sums.distribution_numbers import number_of_counts
from addon.store.money.sums.rollup_schema import TABLES
from addon.store.protocol import StoreUnavailable

_SUMS: Final = {table.name: table for table in TABLES}
_TRIGGERED: Final = ("usage", "audit")
"""The tables of PostgreSQL whose triggers would count each row again."""


class Target(Protocol):
    """An empty ledger that is being filled."""

    ledger: Ledger

    def columns(self, table: CopiedTable) -> Sequence[str]:
        """Return the columns of a table that are copied."""

    def write(self, table: CopiedTable, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Write rows of a table."""

    def finish(self, ledger_id: str) -> None:
        """Make the ledger whole: it then has this id, and all triggers."""


class SqliteTarget:
    """A ``Target`` in a new SQLite file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.ledger: Ledger = connection
        self._connection = connection
        self._triggers = _drop_triggers(connection)
        connection.execute("DELETE FROM rollup_progress")

    def columns(self, table: CopiedTable) -> Sequence[str]:
        return _columns(self._connection, table.name)

    def write(self, table: CopiedTable, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        marks = ", ".join("?" * len(columns))
        sql = f"INSERT INTO {table.name} ({_quote(columns)}) VALUES ({marks})"  # noqa: S608
        self._connection.executemany(sql, rows)

    def finish(self, ledger_id: str) -> None:
        self._connection.execute(_CLIENT_REQUESTS)
        self._connection.execute("UPDATE ledger SET id = ?", (ledger_id,))
        for sql in self._triggers:
            self._connection.execute(sql)


_CLIENT_REQUESTS: Final = """
    INSERT INTO client_requests (client_request_id, created_at, id)
    SELECT client_request_id, created_at, id FROM usage WHERE client_request_id IS NOT NULL
"""


@contextmanager
def make_file(path: Path, *, is_kept: bool) -> Iterator[SqliteTarget]:
    """Give an empty ledger, which becomes the file ``path`` at the end if ``is_kept``.

    Raise ``StoreUnavailable`` when the file is there already, or can't be written.
    """
    with raising_unavailable(path):
        if path.exists():
            raise StoreUnavailable(f"{path}: exists already; a ledger is copied into a new file")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with private_file(path) as partial:
            with closing(sqlite3.connect(partial, isolation_level=None)) as connection:
                migrate(connection)
                with connection:
                    connection.execute("BEGIN")
                    yield SqliteTarget(connection)
            sync_path(partial)
            if is_kept:
                os.link(partial, path)
                sync_path(path.parent)


class PostgresTarget:
    """A ``Target`` in an empty database of PostgreSQL, in one transaction."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.ledger: Ledger = PostgresLedger(connection)
        self._connection = connection
        self._months: set[str] = set()
        for table in _TRIGGERED:
            connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        connection.execute("DELETE FROM rollup_progress")

    def columns(self, table: CopiedTable) -> Sequence[str]:
        """See ``Target.columns``. What counts rows as they are written is not copied."""
        return [one for one in _columns(self.ledger, table.name) if one != "rowid"]

    def write(self, table: CopiedTable, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if table.name == "usage":
            self._make_partitions(rows, columns.index("created_at"))
        numbers = [place for place, name in enumerate(columns) if name in table.distributions]
        name, more = _written_to(table.name)
        written = _quote([*columns, *more])
        with self._connection.cursor().copy(f"COPY {name} ({written}) FROM STDIN") as copy:
            for row in rows:
                values = [_storable(one) for one in row]
                for place in numbers:
                    values[place] = number_of_counts(values[place])
                copy.write_row([*values, *more.values()])

    def finish(self, ledger_id: str) -> None:
        self._connection.execute(_LAST_LINE)
        self._connection.execute("UPDATE ledger SET id = %s", (ledger_id,))
        for table in _TRIGGERED:
            self._connection.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")

    def _make_partitions(self, rows: Iterable[Sequence[Any]], place: int) -> None:
        for month in sorted({row[place][:7] for row in rows} - self._months):
            self.ledger.execute(partition(month))
            self._months.add(month)


_LAST_LINE: Final = (
    "UPDATE sqlite_sequence SET seq = (SELECT coalesce(max(number), 0) FROM audit) WHERE name = 'audit'"
)


@contextmanager
def fill_database(place: PostgresPlace, *, is_kept: bool) -> Iterator[PostgresTarget]:
    """Give an empty ledger in a database, which is there for others at the end if ``is_kept``.

    Raise ``StoreUnavailable`` when the database has a ledger already, or can't be written.
    """
    with place.fill() as connection:
        ledger = PostgresLedger(connection)
        if ledger.execute("SELECT to_regclass('ledger') IS NOT NULL").fetchone()[0]:
            raise StoreUnavailable(
                f"{place.name}: has a ledger already; a ledger is copied into an empty database"
            )
        create(ledger, datetime.now(UTC).date())
        yield PostgresTarget(connection)
        connection.execute("COMMIT" if is_kept else "ROLLBACK")


def _columns(ledger: Ledger, table: str) -> list[str]:
    return [column[0] for column in ledger.execute(f"SELECT * FROM {table} LIMIT 0").description]  # noqa: S608


def _quote(columns: Sequence[str]) -> str:
    return ", ".join(f'"{one}"' for one in columns)


def _drop_triggers(connection: sqlite3.Connection) -> list[str]:
    """Drop the triggers, which would count each row again, and return the SQL that makes them."""
    found = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in found:
        connection.execute(f'DROP TRIGGER "{name}"')
    return [sql for _, sql in found]


def _written_to(table: str) -> tuple[str, Mapping[str, int]]:
    """Return the table that has what is merged of a table, and its further columns."""
    if table == "spend":
        return COUNTER_PARTS, {"writer": 0}
    return (merged(_SUMS[table]), {}) if table in _SUMS else (table, {})


def _storable(value: Any) -> Any:
    """Return a value without NUL, which PostgreSQL takes in no text."""
    return value.replace("\0", "") if isinstance(value, str) else value
