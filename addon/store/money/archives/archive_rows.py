"""The rows of a month in either engine: read in bounded batches, and compared with those of a file word for word."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

from addon.store.money.attempt_schema import ATTEMPTS
from addon.store.money.engine import ENTRIES, Table
from addon.store.money.ledger import Ledger
from addon.store.money.reports.names import find_wallets
from addon.store.money.rows import USAGE
from addon.store.money.sums.rollup_schema import AFTER_ALL

type Rows = Sequence[tuple[Any, ...]]
"""Rows with the columns of their ``Table``. The id of the call, or of the entry, is the first."""

BATCH_ROWS: Final = 2000


def read_calls(source: Ledger, month: str) -> Iterator[Rows]:
    """Yield the calls of a month, by their time, those of one moment as they were written."""
    place: Sequence[Any] = (month, -1)
    while rows := source.execute(_CALLS, (place[0], month + AFTER_ALL, *place, BATCH_ROWS)).fetchall():
        yield [tuple(row[1:]) for row in rows]
        place = rows[-1][1 + _CREATED_AT], rows[-1][0]


def read_entries(source: Ledger, month: str) -> Iterator[Rows]:
    """Yield the wallet entries of a month, a workspace after the other."""
    for workspace in find_wallets(source):
        place: Sequence[Any] = (month, "")
        while rows := source.execute(
            _ENTRIES, (workspace, place[0], month + AFTER_ALL, *place, BATCH_ROWS)
        ).fetchall():
            yield list(map(tuple, rows))
            place = rows[-1][1], rows[-1][0]


def read_attempts(source: Ledger, month: str) -> Iterator[Rows]:
    """Yield the attempts of the calls of a month."""
    place: Sequence[Any] = (month, "", 0)
    while rows := source.execute(_ATTEMPTS, (place[0], month + AFTER_ALL, *place, BATCH_ROWS)).fetchall():
        yield list(map(tuple, rows))
        place = rows[-1][1], rows[-1][0], rows[-1][2]


def count_differing(file: sqlite3.Connection, table: Table, rows: Rows) -> int:
    """Return how many rows the file does not have, or has with other values."""
    columns, key = ", ".join(table.columns), table.columns[0]
    sql = f"SELECT {columns} FROM {table.name} WHERE {key} IN (SELECT value FROM json_each(?))"  # noqa: S608
    filed = set(file.execute(sql, (json.dumps([row[0] for row in rows]),)))
    return sum(row not in filed for row in rows)


_CREATED_AT: Final = USAGE.columns.index("created_at")
_CALLS: Final = f"""
    SELECT rowid, {", ".join(USAGE.columns)} FROM usage
    WHERE created_at >= ? AND created_at < ? AND (created_at, rowid) > (?, ?)
    ORDER BY created_at, rowid LIMIT ?
"""  # noqa: S608
_ATTEMPTS: Final = f"""
    SELECT {", ".join(ATTEMPTS.columns)} FROM attempts
    WHERE created_at >= ? AND created_at < ? AND (created_at, call_id, number) > (?, ?, ?)
    ORDER BY created_at, call_id, number LIMIT ?
"""  # noqa: S608
_ENTRIES: Final = f"""
    SELECT {", ".join(ENTRIES.columns)} FROM wallet_entries
    WHERE workspace = ? AND created_at >= ? AND created_at < ? AND (created_at, id) > (?, ?)
    ORDER BY created_at, id LIMIT ?
"""  # noqa: S608
