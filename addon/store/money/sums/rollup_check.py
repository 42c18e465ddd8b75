"""The comparison of the rollups with the rows, or with the record of an archived month, and their repair.

Source: docs/ledger.md.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from addon.store.money.archives.archives import digest_sums, find_archives, find_recorded_months
from addon.store.money.ledger import Ledger
from addon.store.money.sums.rollup_groups import read_groups, sum_groups
from addon.store.money.sums.rollup_schema import AFTER_ALL, HOURS, TABLES, RollupTable, add_up
from addon.store.money.sums.rollups import DAY_DIGITS, HOUR_DIGITS, Progress, has_rollups, read_progress


class WrongPeriod(NamedTuple):
    """An hour or a day of a table whose sums differ from the rows, or an archived month of it."""

    table: RollupTable
    period: str

    @property
    def is_archived(self) -> bool:
        return len(self.period) < DAY_DIGITS


def find_wrong(connection: Ledger) -> Iterator[WrongPeriod]:
    """Return each hour and each day that differs from the rows. Raises ``sqlite3.Error``.

    The sums of an archived month, less those of the calls that came later, are compared with the record of its file. In
    a transaction of ``connection``, everything is read at one moment.
    """
    if not has_rollups(connection):
        return
    progress, archived = read_progress(connection), find_recorded_months(connection)
    for table in TABLES:
        find = _find_wrong_distributions if table.buckets else _find_wrong_sums
        for period in find(connection, table, progress, archived):
            yield WrongPeriod(table, period)
    for archive in find_archives(connection):
        if archive.file_sha256 is not None:
            found = digest_sums(connection, archive.month, without_late=True)
            for table in TABLES:
                if found[table.name] != archive.sums.get(table.name):
                    yield WrongPeriod(table, archive.month)


def _find_wrong_distributions(
    connection: Ledger, table: RollupTable, progress: Progress, archived: Sequence[str]
) -> Iterator[str]:
    """Return the hours or days of a table with distributions that differ from the rows."""
    begin, end = _coverage(table, progress)
    digits = HOUR_DIGITS if table.period == "hour" else DAY_DIGITS
    periods = connection.execute(
        f"SELECT {table.period} FROM {table.name} UNION"  # noqa: S608
        " SELECT substr(created_at, 1, ?) FROM usage WHERE created_at >= ? AND created_at < ?",
        (digits, begin, end),
    )
    months = set(archived)
    for (period,) in periods:
        if period[:7] in months:
            continue
        kept = read_groups(connection, table, period)
        if kept != sum_groups(connection, table, *_bounds(table, period, progress)):
            yield period


def _find_wrong_sums(
    connection: Ledger, table: RollupTable, progress: Progress, archived: Sequence[str]
) -> Iterator[str]:
    """Return the hours or days of a table without distributions that differ from the rows."""
    values = {"months": json.dumps(archived)} | dict(
        zip(("begin", "end"), _coverage(table, progress), strict=True)
    )
    for (period,) in connection.execute(_wrong_periods(table), values):
        yield period


def repair(connection: sqlite3.Connection, wrong: WrongPeriod) -> None:
    """Count the rows of a period again, in one transaction. Raises ``sqlite3.Error``.

    The rows of an archived month are in its file, so it can't be repaired here.
    """
    table, period = wrong
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"DELETE FROM {table.name} WHERE {table.period} = ?", (period,))  # noqa: S608
        connection.execute(table.build(), _bounds(table, period, read_progress(connection)))


def _bounds(table: RollupTable, period: str, progress: Progress) -> tuple[str, str]:
    """Return the moments between which a table covers the rows of a period."""
    begin, end = _coverage(table, progress)
    return max(period, begin), min(period + AFTER_ALL, end)


def _coverage(table: RollupTable, progress: Progress) -> tuple[str, str]:
    """Return the moments between which a table covers all rows."""
    if table is HOURS:
        return progress.hours_from, AFTER_ALL
    return progress.days_from, progress.days_until


def _wrong_periods(table: RollupTable) -> str:
    """Return the SQL for the hours or days of a table that differ from the rows between two moments."""
    values = [*table.groups.values(), *(add_up(value) for value in table.sums.values())]
    archived = "IN (SELECT value FROM json_each(:months))"
    recorded = (
        f"SELECT {', '.join(values)} FROM usage AS call"  # noqa: S608
        f" WHERE call.created_at >= :begin AND call.created_at < :end"
        f" AND substr(call.created_at, 1, 7) NOT {archived}"
        f" GROUP BY {', '.join(table.groups.values())}"
    )
    columns = ", ".join(table.columns)
    kept = f"SELECT {columns} FROM {table.name} WHERE substr({table.period}, 1, 7) NOT {archived}"  # noqa: S608
    return (
        f"WITH recorded ({columns}) AS MATERIALIZED ({recorded})"  # noqa: S608
        f" SELECT {table.period} FROM (SELECT * FROM recorded EXCEPT {kept}) AS added"
        f" UNION SELECT {table.period} FROM ({kept} EXCEPT SELECT * FROM recorded) AS gone ORDER BY 1"
    )
