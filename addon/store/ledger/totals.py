"""The totals and the newest calls of ``tollgate usage``. Totals are read from the rollups where these cover the time.

Source: docs/ledger.md, docs/decisions/triggers-keep-the-rollups.md.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from addon.store.ledger.rollup_schema import AFTER_ALL
from addon.store.ledger.rollups import DAY_DIGITS, HOUR_DIGITS, read_progress

GROUPS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "workspace": ("workspace",),
        "model": ("model_slug",),
        "day": ("day",),
        "key": ("workspace", "key_id"),
    }
)
"""The groupings of totals, each with the columns that name a group. Days are UTC days."""

_SUMS: Final = (
    "calls",
    "failed_calls",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "wholesale_nanousd",
    "retail_nanousd",
)


@dataclass(frozen=True, slots=True)
class Filter:
    """The calls to report, None for all. ``since`` is inclusive, ``until`` is not."""

    workspace: str | None = None
    model: str | None = None
    since: str | None = None
    until: str | None = None

    def rows(self) -> tuple[str, list[str]]:
        """Return the SQL condition for rows of ``usage``, with a value for each ``?``."""
        return _all(self.names() | {"created_at >= ?": self.since, "created_at < ?": self.until})

    def names(self) -> dict[str, str | None]:
        """Return the conditions that are the same for rows and for sums, with their values."""
        return {"workspace = ?": self.workspace, "model_slug = ?": self.model}


def _all(conditions: Mapping[str, str | None]) -> tuple[str, list[str]]:
    given = {condition: value for condition, value in conditions.items() if value is not None}
    return (" AND ".join(given) or "TRUE"), list(given.values())


class _Source(NamedTuple):
    """A table that sums can be read from, with the SQL of its moment, its day and its sums."""

    table: str
    moment: str
    day: str
    sums: Mapping[str, str]


_KEPT: Final = {name: f"sum({name})" for name in _SUMS}
_ROWS: Final = _Source(
    "usage",
    "created_at",
    f"substr(created_at, 1, {DAY_DIGITS})",
    {**_KEPT, "calls": "count(*)", "failed_calls": "sum(status >= 400)"}
    | {name: f"coalesce(sum({name}), 0)" for name in ("prompt_tokens", "cached_tokens", "completion_tokens")},
)
_HOURS: Final = _Source(
    "rollups",
    "hour",
    f"substr(hour, 1, {DAY_DIGITS})",
    {**_KEPT, "failed_calls": "sum(iif(status_class >= '4', calls, 0))"},
)
_MODEL_DAYS: Final = _Source("model_days", "day", "day", _KEPT)
_KEY_DAYS: Final = _Source("key_days", "day", "day", _KEPT)


class _Part(NamedTuple):
    """A time, from ``begin`` until before ``end``, and where its sums are read."""

    source: _Source
    begin: str
    end: str


def select_totals(
    connection: sqlite3.Connection, by: str, wanted: Filter, limit: int | None
) -> sqlite3.Cursor:
    """Return sums by one of ``GROUPS``. Days are sorted by date, newest first; other groups by cost, highest first."""
    names = GROUPS[by]
    days = None if by == "key" and wanted.model is not None else _KEY_DAYS if by == "key" else _MODEL_DAYS
    selects, values = [], list[str]()
    for part in _split(connection, wanted, days):
        sql, of_part = _select_part(part, by, wanted)
        selects.append(sql)
        values += of_part
    order = "day DESC" if by == "day" else f"retail_nanousd DESC, calls DESC, {', '.join(names)}"
    sql = (
        f"SELECT {', '.join(names)}, {', '.join(f'sum({name}) AS {name}' for name in _SUMS)}"  # noqa: S608
        f" FROM ({' UNION ALL '.join(selects)}) GROUP BY {', '.join(names)} ORDER BY {order} LIMIT ?"
    )
    return connection.execute(sql, (*values, -1 if limit is None else limit))


def _select_part(part: _Part, by: str, wanted: Filter) -> tuple[str, list[str]]:
    source = part.source
    within = {f"{source.moment} >= ?": part.begin or None, f"{source.moment} < ?": part.end}
    where, values = _all(wanted.names() | within)
    # The plus keeps SQLite from reading all of an index in the order of the groups, for the rows of a short time.
    names = [f"{source.day} AS day" if name == "day" else f"+{name} AS {name}" for name in GROUPS[by]]
    sums = [f"{source.sums[name]} AS {name}" for name in _SUMS]
    groups = ", ".join(str(place + 1) for place in range(len(names)))
    return (
        f"SELECT {', '.join(names + sums)} FROM {source.table} WHERE {where} GROUP BY {groups}",  # noqa: S608
        values,
    )


def _split(connection: sqlite3.Connection, wanted: Filter, days: _Source | None) -> Iterator[_Part]:
    """Return the parts of the wanted time: whole days, the whole hours around them, and rows for the rest.

    The parts leave no gap and do not overlap. A part may be empty.
    """
    progress = read_progress(connection)
    begin, end = wanted.since or "", wanted.until or AFTER_ALL
    first_day, last_day = _ceil(begin, DAY_DIGITS), min(end, progress.days_until)[:DAY_DIGITS]
    if days is None or first_day >= last_day:
        yield from _split_hours(begin, end, progress.hours_from)
        return
    yield from _split_hours(begin, first_day, progress.hours_from)
    yield _Part(days, first_day, last_day)
    yield from _split_hours(last_day, end, progress.hours_from)


def _split_hours(begin: str, end: str, hours_from: str) -> Iterator[_Part]:
    first, last = _ceil(max(begin, hours_from), HOUR_DIGITS), end[:HOUR_DIGITS]
    if first >= last:
        yield _Part(_ROWS, begin, end)
        return
    yield _Part(_ROWS, begin, first)
    yield _Part(_HOURS, first, last)
    yield _Part(_ROWS, last, end)


_MIDNIGHT: Final = "T00:00:00.000+00:00"


def _ceil(moment: str, digits: int) -> str:
    """Return the beginning of the first whole day or hour from ``moment`` on.

    All moments are texts that are compared as texts: ``2026-01-31T12`` is the beginning of its hour, and
    ``2026-01-31T12~`` its end.
    """
    period, rest = moment[:digits], moment[digits:]
    return period if _MIDNIGHT[digits - DAY_DIGITS :].startswith(rest) else period + AFTER_ALL


# Single calls.


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

    There is no index by model, so calls of a model are looked for only in the hours that have some.
    """
    if wanted.model is None:
        yield wanted.since, wanted.until
        return
    for part in reversed(list(_split(connection, wanted, days=None))):
        if part.source is not _HOURS:
            yield part.begin, part.end
            continue
        where, values = _all(wanted.names() | {"hour >= ?": part.begin, "hour < ?": part.end})
        sql = f"SELECT DISTINCT hour FROM rollups WHERE {where} ORDER BY hour DESC"  # noqa: S608
        for (hour,) in connection.execute(sql, values):
            yield hour, hour + AFTER_ALL
