"""The removal of calls that a file has from a ledger in SQLite, in short steps beside calls.

Source: docs/ledger.md, "Archives".
"""

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from addon.store.money.archives.archived_ledger import ArchiveRefused, Step
from addon.store.money.attempt_schema import ATTEMPTS
from addon.store.money.engine import ENTRIES
from addon.store.money.rows import CALL, USAGE
from addon.store.money.sums.rollup_schema import AFTER_ALL
from addon.store.money.sums.step_pace import StepPace


def remove_calls(connection: sqlite3.Connection, file: Path, month: str) -> Iterator[Step]:
    """Remove the calls of a month, with the costs that wallets paid. Each must be equal in the file.

    Calls that came later stay. Raises ``ArchiveRefused`` for calls that differ: they stay, too.
    """
    connection.execute("ATTACH ? AS archive", (f"{file.absolute().as_uri()}?mode=ro",))
    pace, place = StepPace(), (month, 0)
    try:
        # The record of the file is on the disk. A step that a loss of power undoes is made again.
        connection.execute("PRAGMA synchronous = NORMAL")
        while rows := connection.execute(_PAGE, (*place, month + AFTER_ALL, pace.rows)).fetchall():
            with pace.step(connection):
                _remove(connection, month, [rowid for _, rowid in rows])
            place = rows[-1]
            yield Step()
            time.sleep(pace.rest_s)
        (left,) = connection.execute(_LEFT, (month, month + AFTER_ALL)).fetchone()
    finally:
        connection.execute("DETACH archive")
    if left:
        raise ArchiveRefused(f"{left} calls of {month} differ from those in {file}: they were not removed")
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _remove(connection: sqlite3.Connection, month: str, rowids: Sequence[int]) -> None:
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO archive_removal VALUES (?)", (month,))
        removed = connection.execute(_REMOVE, (json.dumps(rowids),)).fetchall()
        ids = json.dumps([call_id for (call_id,) in removed])
        connection.execute("DELETE FROM wallet_entries WHERE id IN (SELECT value FROM json_each(?))", (ids,))
        connection.execute("DELETE FROM attempts WHERE call_id IN (SELECT value FROM json_each(?))", (ids,))
        connection.execute("DELETE FROM archive_removal")


def _equal(table: str, columns: Sequence[str]) -> str:
    """Return the condition for a row to be in the file with the same values. The first column is its key."""
    key = columns[0]
    here, there = (", ".join(f"{of}.{name}" for name in columns) for of in (table, "filed"))
    same = f"filed.{key} = {table}.{key} AND ({here}) IS ({there})"
    return f"EXISTS (SELECT 1 FROM archive.{table} AS filed WHERE {same})"  # noqa: S608


_PAGE: Final = """
    SELECT created_at, rowid FROM main.usage
    WHERE (created_at, rowid) > (?, ?) AND created_at < ? ORDER BY created_at, rowid LIMIT ?
"""
_LEFT: Final = """
    SELECT count(*) FROM main.usage
    WHERE created_at >= ? AND created_at < ? AND id NOT IN (SELECT id FROM main.late_calls)
"""
_REMOVE: Final = f"""
    DELETE FROM main.usage
    WHERE rowid IN (SELECT value FROM json_each(?)) AND id NOT IN (SELECT id FROM main.late_calls)
        AND {_equal("usage", USAGE.columns)}
        AND NOT EXISTS (
            SELECT 1 FROM main.attempts
            WHERE call_id = usage.id AND NOT {_equal("attempts", ATTEMPTS.columns)}
        )
        AND NOT EXISTS (
            SELECT 1 FROM main.wallet_entries
            WHERE wallet_entries.id = usage.id
                AND NOT (wallet_entries.reference = '{CALL}' AND {_equal("wallet_entries", ENTRIES.columns)})
        )
    RETURNING id
"""  # noqa: S608
