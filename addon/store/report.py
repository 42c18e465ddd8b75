"""What was booked, read from the ledger through a connection that can't write to it. Source: docs/ledger.md."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from addon.store.migrations import migrate

GROUPS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "workspace": ("workspace",),
        "model": ("model_slug",),
        "day": ("substr(created_at, 1, 10) AS day",),
        "key": ("workspace", "key_id"),
    }
)
"""What totals can be made by, and the columns that then name a group. Days are UTC days."""

_TOTALS = """
    count(*) AS calls,
    sum(status >= 400) AS failed_calls,
    coalesce(sum(prompt_tokens), 0) AS prompt_tokens,
    coalesce(sum(cached_tokens), 0) AS cached_tokens,
    coalesce(sum(completion_tokens), 0) AS completion_tokens,
    sum(wholesale_nanousd) AS wholesale_nanousd,
    sum(retail_nanousd) AS retail_nanousd
"""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows count: an SQL clause with ``?`` for each value."""

    where: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under the names of their columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def records(self) -> list[dict[str, Any]]:
        """The rows as mappings from column to value."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def make_filter(workspace: str | None, model: str | None, since: str | None, until: str | None) -> Filter:
    """Return the filter that leaves out what is None; ``since`` is inclusive, ``until`` is not."""
    conditions = {
        "workspace = ?": workspace,
        "model_slug = ?": model,
        "created_at >= ?": since,
        "created_at < ?": until,
    }
    given = {condition: value for condition, value in conditions.items() if value is not None}
    return Filter(f"WHERE {' AND '.join(given)}" if given else "", tuple(given.values()))


@contextmanager
def open_report(path: Path) -> Iterator[sqlite3.Connection]:
    """Give a view of the ledger at one moment; one that does not exist yet is empty. Raises sqlite3.Error, OSError."""
    exists = path.exists()
    target = f"{path.absolute().as_uri()}?mode=ro" if exists else ":memory:"
    with closing(sqlite3.connect(target, uri=exists, timeout=2, isolation_level=None)) as connection:
        if not exists:
            migrate(connection)
        connection.execute("BEGIN")
        yield connection


def find_recent(connection: sqlite3.Connection, wanted: Filter, limit: int) -> Table:
    """Return the newest calls, the newest first, with every column of the ledger."""
    sql = f"SELECT * FROM usage {wanted.where} ORDER BY created_at DESC, rowid DESC LIMIT ?"  # noqa: S608
    return _select(connection, sql, (*wanted.values, limit))


def find_totals(connection: sqlite3.Connection, by: str, wanted: Filter, limit: int | None) -> Table:
    """Return sums by one of ``GROUPS``: days newest first, everything else dearest first."""
    names = GROUPS[by]
    places = ", ".join(str(place + 1) for place in range(len(names)))
    order = "day DESC" if by == "day" else f"retail_nanousd DESC, calls DESC, {places}"
    sql = (
        f"SELECT {', '.join(names)}, {_TOTALS} FROM usage {wanted.where}"  # noqa: S608
        f" GROUP BY {places} ORDER BY {order} LIMIT ?"
    )
    return _select(connection, sql, (*wanted.values, -1 if limit is None else limit))


def _select(connection: sqlite3.Connection, sql: str, values: tuple[object, ...]) -> Table:
    cursor = connection.execute(sql, values)
    return Table([column[0] for column in cursor.description], cursor.fetchall())
