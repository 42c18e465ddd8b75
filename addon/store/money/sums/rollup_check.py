"""The comparison of the rollups with the rows, or with the record of an archived month, and their repair.

Source: docs/ledger.md.
"""

import sqlite3
from collections.abc import Iterator
from typing import Final, NamedTuple

from addon.store.money.archives.archives import digest_sums, find_archives, find_recorded_months
from addon.store.money.ledger import Ledger
from addon.store.money.sums.rollup_days import DaySums, coverage, find_days, read_day, sum_day
from addon.store.money.sums.rollup_schema import AFTER_ALL, TABLES, RollupTable
from addon.store.money.sums.rollups import DAY_DIGITS, Progress, has_rollups, read_progress

_MONTH_DIGITS: Final = len("2026-01")


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
    progress, archived = read_progress(connection), set(find_recorded_months(connection))
    wrong = [set[str]() for _ in TABLES]
    for day in find_days(connection):
        if day[:_MONTH_DIGITS] not in archived:
            recorded = sum_day(connection, day, progress)
            for table, periods in zip(TABLES, wrong, strict=True):
                periods |= _differing(table, read_day(connection, table, day), recorded[table.name])
    for table, periods in zip(TABLES, wrong, strict=True):
        yield from (WrongPeriod(table, period) for period in sorted(periods))
    for archive in find_archives(connection):
        if archive.file_sha256 is not None:
            found = digest_sums(connection, archive.month, without_late=True)
            for table in TABLES:
                if found[table.name] != archive.sums.get(table.name):
                    yield WrongPeriod(table, archive.month)


def _differing(table: RollupTable, kept: DaySums, recorded: DaySums) -> set[str]:
    """Return the periods whose groups differ."""
    if kept == recorded:
        return set()
    place = list(table.groups).index(table.period)
    return {key[place] for key in kept.keys() | recorded.keys() if kept.get(key) != recorded.get(key)}


def repair(connection: sqlite3.Connection, wrong: WrongPeriod) -> None:
    """Count the rows of a period again, in one transaction. Raises ``sqlite3.Error``.

    The rows of an archived month are in its file, so it can't be repaired here.
    """
    table, period = wrong
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"DELETE FROM {table.name} WHERE {table.period} = ?", (period,))  # noqa: S608
        connection.execute(table.build(), period_bounds(table, period, read_progress(connection)))


def period_bounds(table: RollupTable, period: str, progress: Progress) -> tuple[str, str]:
    """Return the moments between which a table covers the rows of a period."""
    begin, end = coverage(table, progress)
    return max(period, begin), min(period + AFTER_ALL, end)
