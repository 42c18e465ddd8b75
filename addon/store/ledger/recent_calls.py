"""The newest calls of ``tollgate usage``."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from addon.store.ledger.call_filter import Filter, join_conditions
from addon.store.ledger.rollup_schema import AFTER_ALL
from addon.store.ledger.sum_sources import HOURS, split_time


def select_recent(connection: sqlite3.Connection, wanted: Filter, limit: int) -> tuple[list[str], list[Any]]:
    """Return the columns of the ledger, and the rows of the newest calls, the newest first."""
    columns, rows = list[str](), list[Any]()
    for begin, end in _find_times(connection, wanted):
        where, values = replace(wanted, since=begin, until=end).rows()
        sql = f"SELECT * FROM usage WHERE {where} ORDER BY created_at DESC, rowid DESC LIMIT ?"  # noqa: S608
        cursor = connection.execute(sql, (*values, limit - len(rows)))
        columns = [column[0] for column in cursor.description]
        rows += cursor
        if len(rows) == limit:
            break
    return columns, rows


def _find_times(connection: sqlite3.Connection, wanted: Filter) -> Iterator[tuple[str | None, str | None]]:
    """Return the times to look for the wanted calls, the newest first.

    There is no index by model or status, so such calls are looked for only in the hours that have some.
    """
    if not wanted.is_rare:
        yield wanted.since, wanted.until
        return
    coarse = wanted.with_status_class()
    for part in reversed(list(split_time(connection, coarse, days=None))):
        if part.source is not HOURS:
            yield part.begin, part.end
            continue
        where, values = join_conditions(
            coarse.conditions(of_rows=False) | {"hour >= ?": part.begin, "hour < ?": part.end}
        )
        sql = f"SELECT DISTINCT hour FROM rollups WHERE {where} ORDER BY hour DESC"  # noqa: S608
        for (hour,) in connection.execute(sql, values):
            yield hour, hour + AFTER_ALL
