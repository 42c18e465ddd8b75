"""The newest calls of ``tollgate usage``."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from addon.store.money.ledger import Ledger, find_columns
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.sum_sources import DAYS, HOURS, ROWS, Part, split_time
from addon.store.money.sums.rollup_schema import AFTER_ALL


def select_recent(ledger: Ledger, wanted: Filter, limit: int) -> tuple[list[str], list[Any]]:
    """Return the columns of the ledger, and the rows of the newest calls, the newest first."""
    columns, rows = find_columns(ledger, "usage"), list[Any]()
    listed = ", ".join(columns)
    for begin, end in find_times(ledger, wanted):
        where, values = replace(wanted, since=begin, until=end).rows()
        sql = f"SELECT {listed} FROM usage WHERE {where} ORDER BY created_at DESC, id DESC LIMIT ?"  # noqa: S608
        rows += ledger.execute(sql, (*values, limit - len(rows)))
        if len(rows) == limit:
            break
    return columns, rows


def find_times(ledger: Ledger, wanted: Filter, *, newest_first: bool = True) -> Iterator[tuple[str, str]]:
    """Return the times to look for the wanted calls, from until before, in order.

    There is no index by model or status. So such calls are looked for only in the hours that have some, and those hours
    only in the days that have some.
    """
    if not wanted.is_rare:
        yield wanted.since or "", wanted.until or AFTER_ALL
        return
    coarse = wanted.for_sums()
    parts = list(split_time(ledger, coarse, DAYS))
    for part in reversed(parts) if newest_first else parts:
        if part.source is ROWS:
            yield part.begin, part.end
            continue
        for begin, end in _find_periods(ledger, coarse, part, newest_first):
            if part.source is HOURS:
                yield begin, end
            else:
                yield from _find_periods(ledger, coarse, Part(HOURS, begin, end), newest_first)


def _find_periods(
    ledger: Ledger, coarse: Filter, part: Part, newest_first: bool
) -> Iterator[tuple[str, str]]:
    """Return the hours or days of a part that have wanted calls."""
    moment = part.source.moment
    where, values = part.select(coarse)
    order = "DESC" if newest_first else "ASC"
    sql = f"SELECT DISTINCT {moment} FROM {part.source.table} WHERE {where} ORDER BY {moment} {order}"  # noqa: S608
    for (period,) in ledger.execute(sql, values):
        yield period, period + AFTER_ALL
