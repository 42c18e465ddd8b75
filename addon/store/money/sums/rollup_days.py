"""The sums of one day in all tables: as its calls give them, and as the tables have them. Source: docs/ledger.md.

The calls are added up once, by the groups of ``HOURS``. From those follow the groups of the other tables, which have
fewer columns.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import add, itemgetter
from typing import Any, Final

from addon.store.money.ledger import Ledger
from addon.store.money.postgres.sum_schema import sum_calls
from addon.store.money.sums.distribution_numbers import letters_of, number_of_counts, number_of_letters
from addon.store.money.sums.rollup_groups import WITHIN
from addon.store.money.sums.rollup_schema import AFTER_ALL, HOURS, TABLES, RollupTable, add_up
from addon.store.money.sums.rollups import DAY_DIGITS, Progress

type DaySums = dict[tuple[str, ...], tuple[int, ...]]
"""Of each group of a table the sums, and each distribution as one number."""


def find_days(ledger: Ledger) -> list[str]:
    """Return the days that have calls or sums, in order."""
    days = set(_find_days_of_calls(ledger))
    for table in TABLES:
        sql = f"SELECT DISTINCT substr({table.period}, 1, {DAY_DIGITS}) FROM {table.name}"  # noqa: S608
        days.update(day for (day,) in ledger.execute(sql))
    return sorted(days)


def _find_days_of_calls(ledger: Ledger) -> Iterator[str]:
    """Yield the day of the first call, and of the first one after each day: an index answers that at once."""
    after = ""
    while True:
        (first,) = ledger.execute(
            "SELECT min(created_at) FROM usage WHERE created_at > ?", (after,)
        ).fetchone()
        if first is None:
            return
        yield first[:DAY_DIGITS]
        after = first[:DAY_DIGITS] + AFTER_ALL


def coverage(table: RollupTable, progress: Progress) -> tuple[str, str]:
    """Return the moments between which a table covers all rows."""
    if table is HOURS:
        return progress.hours_from, AFTER_ALL
    return progress.days_from, progress.days_until


def sum_day(ledger: Ledger, day: str, progress: Progress) -> Mapping[str, DaySums]:
    """Return the sums of a day in each table, by its name, as the calls that it covers give them."""
    found: dict[str, DaySums] = {table.name: {} for table in TABLES}
    bounds = {moment for table in TABLES for moment in coverage(table, progress)}
    end = day + AFTER_ALL
    for first, last in pairwise(sorted({day, end, *(one for one in bounds if day < one < end)})):
        covering = [
            table for table in TABLES if coverage(table, progress)[0] <= first < coverage(table, progress)[1]
        ]
        rows = list(_sum_calls(ledger, first, last)) if covering else ()
        for table in covering:
            _add(rows, found[table.name], *_PICKED[table.name])
    return found


def _add(rows: Iterable[Sequence[Any]], groups: DaySums, key_of: Any, values_of: Any) -> None:
    for row in rows:
        key, values = key_of(row), values_of(row)
        before = groups.get(key)
        groups[key] = values if before is None else tuple(map(add, before, values))


_NAMES: Final = (*HOURS.columns, "day", "failed_calls")
_PICKED: Final = {
    table.name: (
        itemgetter(*map(_NAMES.index, table.groups)),
        itemgetter(*map(_NAMES.index, (*table.sums, *table.buckets))),
    )
    for table in TABLES
}
"""What a table has of a row with ``_NAMES``: its groups, and its sums."""
_CLASS, _CALLS = _NAMES.index("status_class"), _NAMES.index("calls")
_DISTRIBUTIONS: Final = len(HOURS.buckets)
_OF_GROUPS: Final = ", ".join(HOURS.groups.values())
_IN_SQLITE: Final = f"""
    SELECT {", ".join([_OF_GROUPS, *map(add_up, HOURS.sums.values()), *map(letters_of, HOURS.buckets.values())])}
    FROM usage AS call WHERE {WITHIN} GROUP BY {_OF_GROUPS}
"""  # noqa: S608


def _sum_calls(ledger: Ledger, begin: str, end: str) -> Iterator[Sequence[Any]]:
    """Yield a row with ``_NAMES`` for each group that the calls of a part of a day have."""
    in_sqlite = isinstance(ledger, sqlite3.Connection)
    for row in ledger.execute(_IN_SQLITE if in_sqlite else sum_calls(HOURS), (begin, end)):
        distributions = row[-_DISTRIBUTIONS:]
        yield (
            *row[:-_DISTRIBUTIONS],
            *(map(number_of_letters, distributions) if in_sqlite else distributions),
            row[0][:DAY_DIGITS],
            row[_CALLS] if row[_CLASS] >= "4" else 0,
        )


def read_day(ledger: Ledger, table: RollupTable, day: str) -> DaySums:
    """Return the sums of a day as the table has them."""
    groups, sums = len(table.groups), len(table.groups) + len(table.sums)
    place = list(table.groups).index(table.period)
    rows = ledger.execute(
        f"SELECT {', '.join(table.columns)} FROM {table.name}"  # noqa: S608
        f" WHERE {table.period} >= ? AND {table.period} < ?",
        (day, day + AFTER_ALL),
    )
    return {
        row[:groups]: (*row[groups:sums], *map(_number_of, row[sums:]))
        for row in rows
        if row[place][:DAY_DIGITS] == day
    }


def _number_of(distribution: str | int) -> int:
    """Return a distribution as one number, which it is in PostgreSQL."""
    return number_of_counts(distribution) if isinstance(distribution, str) else distribution
