"""The build of rollups in small steps. Source: docs/ledger.md.

The table of clients' ids is built in the same steps, after them.
"""

import sqlite3
from datetime import UTC, datetime
from typing import NamedTuple

from addon.store.money.ledger import Ledger
from addon.store.money.sqlite.client_request_schema import CLIENT_REQUEST_BUILD
from addon.store.money.sums.rollup_schema import (
    AFTER_ALL,
    ENDED_TABLES,
    HOURS,
    TABLES,
)

HOUR_DIGITS = len("2026-01-31T12")
DAY_DIGITS = len("2026-01-31")


class Progress(NamedTuple):
    """The rows that the rollups cover: ``rollups`` from a moment on, the other tables from one moment until another.

    ``client_requests`` covers those from ``client_ids_from`` on.
    """

    hours_from: str
    days_until: str
    days_from: str = ""
    client_ids_from: str = ""

    @property
    def built_from(self) -> str:
        """The moment before which calls are in no table yet, or only in ``rollups``. Empty when there are none."""
        return max(self.hours_from, self.days_from)


_NOT_BUILT = Progress(AFTER_ALL, "")


def read_progress(ledger: Ledger) -> Progress:
    """Return how far the rollups are built."""
    if not has_rollups(ledger):
        return _NOT_BUILT
    # An earlier version has no column ``days_from``: its tables cover the rows from the first one on. A version
    # without ``client_ids_from`` has no table of them, and no one looks there.
    return Progress(*ledger.execute("SELECT * FROM rollup_progress").fetchone())


def has_rollups(ledger: Ledger) -> bool:
    """Return False for a ledger that an older version has used last, before a gateway has opened it."""
    names = [table.name for table in TABLES]
    sql = f"SELECT count(*) FROM sqlite_schema WHERE name IN ({', '.join('?' * len(names))})"  # noqa: S608
    return bool(ledger.execute(sql, names).fetchone()[0] == len(names))


def is_behind(connection: sqlite3.Connection, now: datetime) -> bool:
    """Return whether ``build_step`` has something to do. This takes no lock."""
    progress = read_progress(connection)
    is_building = progress.built_from or progress.client_ids_from
    return bool(is_building) or _has_ended(connection, progress, _hour(now))


def _has_ended(connection: sqlite3.Connection, progress: Progress, limit: str) -> bool:
    """Return whether there are rows of hours that have ended since ``days_until``."""
    return _find_moment(connection, progress.days_until, limit, 0) is not None


def build_step(connection: sqlite3.Connection, now: datetime, rows: int) -> None:
    """Add at most ``rows`` rows to the rollups, in one transaction. Rows of the same millisecond stay together.

    The step begins where the last one ended, whichever process made it. Raises ``sqlite3.Error``.
    """
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        progress = read_progress(connection)
        if progress.hours_from:
            _build_hours(connection, progress, rows)
        elif _has_ended(connection, progress, limit := _hour(now)):
            _build_days(connection, progress, limit, rows)
        elif progress.days_from:
            _build_earlier_days(connection, progress, rows)
        elif progress.client_ids_from:
            _build_client_ids(connection, progress, rows)


def _build_hours(connection: sqlite3.Connection, progress: Progress, rows: int) -> None:
    """Add earlier rows: the newest hours come first, because people look at them."""
    begin = _find_earlier_moment(connection, progress.hours_from, rows)
    connection.execute(HOURS.build(), (begin, progress.hours_from))
    connection.execute("UPDATE rollup_progress SET hours_from = ?", (begin,))


def _build_days(connection: sqlite3.Connection, progress: Progress, limit: str, rows: int) -> None:
    """Add later rows, up to the current hour."""
    if progress.days_until >= limit:
        return
    end = _find_moment(connection, progress.days_until, limit, rows) or limit
    if end == progress.days_until:
        end += AFTER_ALL  # All these rows are of one millisecond.
    for table in ENDED_TABLES:
        connection.execute(table.build(), (progress.days_until, end))
    connection.execute("UPDATE rollup_progress SET days_until = ?", (end,))


def _build_earlier_days(connection: sqlite3.Connection, progress: Progress, rows: int) -> None:
    """Add the rows of an older ledger to the tables of ended hours, the newest first."""
    begin = _find_earlier_moment(connection, progress.days_from, rows)
    for table in ENDED_TABLES:
        connection.execute(table.build(), (begin, progress.days_from))
    connection.execute("UPDATE rollup_progress SET days_from = ?", (begin,))


def _build_client_ids(connection: sqlite3.Connection, progress: Progress, rows: int) -> None:
    """Add earlier rows to the table of clients' ids, the newest first."""
    begin = _find_earlier_moment(connection, progress.client_ids_from, rows)
    connection.execute(CLIENT_REQUEST_BUILD, (begin, progress.client_ids_from))
    connection.execute("UPDATE rollup_progress SET client_ids_from = ?", (begin,))


def find_newest_end(connection: sqlite3.Connection) -> str:
    """Return the moment after all rows, from which their build goes back. Empty when there are none."""
    (newest,) = connection.execute("SELECT max(created_at) FROM usage").fetchone()
    return newest + AFTER_ALL if newest else ""


def _find_earlier_moment(connection: sqlite3.Connection, end: str, rows: int) -> str:
    """Return the moment of the last of ``rows`` rows before ``end``, backwards. Empty when there are no more."""
    sql = "SELECT created_at FROM usage WHERE created_at < ? ORDER BY created_at DESC LIMIT 1 OFFSET ?"
    found = connection.execute(sql, (end, rows - 1)).fetchone()
    return found[0] if found else ""


def _find_moment(connection: sqlite3.Connection, begin: str, end: str, rows: int) -> str | None:
    """Return the moment of the row that ``rows`` others precede."""
    sql = "SELECT created_at FROM usage WHERE created_at >= ? AND created_at < ? ORDER BY created_at LIMIT 1 OFFSET ?"
    found = connection.execute(sql, (begin, end, rows)).fetchone()
    return found[0] if found else None


def _hour(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()[:HOUR_DIGITS]
