"""The tables that totals are read from: rows, sums by hour and sums by day, each for a part of the wanted time.

Source: docs/ledger.md, docs/decisions/triggers-keep-the-rollups.md.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from addon.store.ledger.call_filter import Filter
from addon.store.ledger.rollup_schema import AFTER_ALL
from addon.store.ledger.rollups import DAY_DIGITS, HOUR_DIGITS, read_progress

SUMS: Final = (
    "calls",
    "failed_calls",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "wholesale_nanousd",
    "retail_nanousd",
)


class Source(NamedTuple):
    """A table that sums can be read from, with the SQL of its moment, its sums, and columns that it does not have."""

    table: str
    moment: str
    columns: Mapping[str, str]
    sums: Mapping[str, str]


_KEPT: Final = {name: f"sum({name})" for name in SUMS} | {
    "failed_calls": "sum(iif(status_class >= '4', calls, 0))"
}
ROWS: Final = Source(
    "usage",
    "created_at",
    {
        "day": f"substr(created_at, 1, {DAY_DIGITS})",
        "hour": f"substr(created_at, 1, {HOUR_DIGITS})",
        "status_class": "(status / 100) || 'xx'",
    },
    _KEPT
    | {"calls": "count(*)", "failed_calls": "sum(status >= 400)"}
    | {name: f"coalesce(sum({name}), 0)" for name in ("prompt_tokens", "cached_tokens", "completion_tokens")},
)
HOURS: Final = Source("rollups", "hour", {"day": f"substr(hour, 1, {DAY_DIGITS})"}, _KEPT)
DAYS: Final = Source("days", "day", {}, _KEPT)


class Part(NamedTuple):
    """A time, from ``begin`` until before ``end``, and where its sums are read."""

    source: Source
    begin: str
    end: str


def split_time(connection: sqlite3.Connection, wanted: Filter, days: Source | None) -> Iterator[Part]:
    """Return the parts of the wanted time: whole days, the whole hours around them, and rows for the rest.

    The parts leave no gap and do not overlap. A part may be empty.
    """
    progress = read_progress(connection)
    begin, end = wanted.since or "", wanted.until or AFTER_ALL
    if wanted.has_exact_status:
        yield Part(ROWS, begin, end)
        return
    first_day, last_day = _ceil(begin, DAY_DIGITS), min(end, progress.days_until)[:DAY_DIGITS]
    if days is None or first_day >= last_day:
        yield from _split_hours(begin, end, progress.hours_from)
        return
    yield from _split_hours(begin, first_day, progress.hours_from)
    yield Part(days, first_day, last_day)
    yield from _split_hours(last_day, end, progress.hours_from)


def _split_hours(begin: str, end: str, hours_from: str) -> Iterator[Part]:
    first, last = _ceil(max(begin, hours_from), HOUR_DIGITS), end[:HOUR_DIGITS]
    if first >= last:
        yield Part(ROWS, begin, end)
        return
    yield Part(ROWS, begin, first)
    yield Part(HOURS, first, last)
    yield Part(ROWS, last, end)


_MIDNIGHT: Final = "T00:00:00.000+00:00"


def _ceil(moment: str, digits: int) -> str:
    """Return the beginning of the first whole day or hour from ``moment`` on.

    All moments are texts that are compared as texts: ``2026-01-31T12`` is the beginning of its hour, and
    ``2026-01-31T12~`` its end.
    """
    period, rest = moment[:digits], moment[digits:]
    return period if _MIDNIGHT[digits - DAY_DIGITS :].startswith(rest) else period + AFTER_ALL
