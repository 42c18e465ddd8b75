"""The totals and the newest calls of ``tollgate usage``. Totals are read from the rollups where these cover the time.

Source: docs/ledger.md, docs/decisions/triggers-keep-the-rollups.md.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from addon.store.ledger.rollup_schema import AFTER_ALL
from addon.store.ledger.rollups import DAY_DIGITS, HOUR_DIGITS, read_progress

GROUPS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "workspace": ("workspace",),
        "key": ("workspace", "key_id"),
        "model": ("model_slug",),
        "provider": ("provider",),
        "mode": ("mode",),
        "status": ("status_class",),
        "day": ("day",),
        "hour": ("hour",),
    }
)
"""The groupings of totals, each with the columns that name a group. Days and hours are of UTC."""

TIMES: Final = frozenset({"day", "hour"})
"""The groupings that are sorted by time, newest first. The others are sorted by cost, highest first."""

FAILED: Final = "error"
"""The status of ``Filter`` for all calls that failed: 400 or more."""

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
    """The calls to report, None for all. ``since`` is inclusive, ``until`` is not.

    ``status`` is a status (``429``), a class (``4xx``) or ``FAILED``.
    """

    workspace: str | None = None
    model: str | None = None
    since: str | None = None
    until: str | None = None
    key: str | None = None
    provider: str | None = None
    status: str | None = None

    def rows(self) -> tuple[str, list[str]]:
        """Return the SQL condition for rows of ``usage``, with a value for each ``?``."""
        return _all(
            self.names()
            | self._status_of_rows()
            | {"created_at >= ?": self.since, "created_at < ?": self.until}
        )

    def names(self) -> dict[str, str | None]:
        """Return the conditions that are the same for rows and for sums, with their values."""
        return {
            "workspace = ?": self.workspace,
            "model_slug = ?": self.model,
            "key_id = ?": self.key,
            "provider = ?": self.provider,
        }

    @property
    def has_exact_status(self) -> bool:
        """Whether only rows can answer: sums know the class of a status."""
        return self.status is not None and self.status.isdigit()

    @property
    def is_rare(self) -> bool:
        """Whether the filter may match few calls of many, and no index finds them."""
        return any((self.model, self.key, self.provider, self.status))

    def with_status_class(self) -> "Filter":
        """Return the filter that sums can answer: the class of an exact status instead of it."""
        if self.status is None or not self.has_exact_status:
            return self
        return replace(self, status=f"{self.status[0]}xx")

    def conditions(self, source: "_Source") -> dict[str, str | None]:
        """Return the conditions for a source of sums, but those of the time."""
        if source is _ROWS:
            return self.names() | self._status_of_rows()
        if self.status == FAILED:
            return self.names() | {"status_class >= ?": "4"}
        return self.names() | {"status_class = ?": self.status}

    def _status_of_rows(self) -> dict[str, str | None]:
        if self.status is None:
            return {}
        if self.status == FAILED:
            return {"status >= CAST(? AS INTEGER)": "400"}
        if self.has_exact_status:
            return {"status = CAST(? AS INTEGER)": self.status}
        return {"status / 100 = CAST(? AS INTEGER)": self.status[0]}


def _all(conditions: Mapping[str, str | None]) -> tuple[str, list[str]]:
    given = {condition: value for condition, value in conditions.items() if value is not None}
    return (" AND ".join(given) or "TRUE"), list(given.values())


class _Source(NamedTuple):
    """A table that sums can be read from, with the SQL of its moment, its sums, and columns that it does not have."""

    table: str
    moment: str
    columns: Mapping[str, str]
    sums: Mapping[str, str]


_KEPT: Final = {name: f"sum({name})" for name in _SUMS} | {
    "failed_calls": "sum(iif(status_class >= '4', calls, 0))"
}
_ROWS: Final = _Source(
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
_HOURS: Final = _Source("rollups", "hour", {"day": f"substr(hour, 1, {DAY_DIGITS})"}, _KEPT)
_DAYS: Final = _Source("days", "day", {}, _KEPT)


class _Part(NamedTuple):
    """A time, from ``begin`` until before ``end``, and where its sums are read."""

    source: _Source
    begin: str
    end: str


def split_groups(by: str) -> list[str]:
    """Return the groupings of ``by``: one of ``GROUPS``, or two that are separated by a comma."""
    return by.split(",")


def columns_of(by: str) -> list[str]:
    """Return the columns that name a group, each once."""
    return list(dict.fromkeys(chain.from_iterable(GROUPS[one] for one in split_groups(by))))


def select_totals(
    connection: sqlite3.Connection, by: str, wanted: Filter, limit: int | None
) -> sqlite3.Cursor:
    """Return sums by one or two of ``GROUPS``: those of the first are in order, and within them those of the second."""
    names = columns_of(by)
    selects, values = [], list[str]()
    for part in _split(connection, wanted, days=None if "hour" in names else _DAYS):
        sql, of_part = _select_part(part, names, wanted)
        selects.append(sql)
        values += of_part
    listed = ", ".join(names)
    grouped = (
        f"SELECT {listed}, {', '.join(f'sum({name}) AS {name}' for name in _SUMS)}"  # noqa: S608
        f" FROM ({' UNION ALL '.join(selects)}) GROUP BY {listed}"
    )
    sql = f"SELECT * FROM ({grouped}) ORDER BY {_order(by)} LIMIT ?"  # noqa: S608
    return connection.execute(sql, (*values, -1 if limit is None else limit))


def _order(by: str) -> str:
    first, *more = split_groups(by)
    order = _order_within(GROUPS[first])
    if first not in TIMES and more:
        # All groups of the first kind together, before those of the second kind in each.
        names = ", ".join(GROUPS[first])
        order = f"sum(retail_nanousd) OVER by_first DESC, sum(calls) OVER by_first DESC, {names}"
        order = order.replace("by_first", f"(PARTITION BY {names})")
    rest = [order, *(_order_within(GROUPS[one]) for one in more)]
    return ", ".join(rest)


def _order_within(names: Sequence[str]) -> str:
    if names[0] in TIMES:
        return f"{names[0]} DESC"
    return f"retail_nanousd DESC, calls DESC, {', '.join(names)}"


def _select_part(part: _Part, names: Sequence[str], wanted: Filter) -> tuple[str, list[str]]:
    source = part.source
    within = {f"{source.moment} >= ?": part.begin or None, f"{source.moment} < ?": part.end}
    where, values = _all(wanted.conditions(source) | within)
    # The plus keeps SQLite from reading all of an index in the order of the groups, for the rows of a short time.
    columns = [f"{source.columns.get(name, f'+{name}')} AS {name}" for name in names]
    sums = [f"{source.sums[name]} AS {name}" for name in _SUMS]
    groups = ", ".join(str(place + 1) for place in range(len(names)))
    return (
        f"SELECT {', '.join(columns + sums)} FROM {source.table} WHERE {where} GROUP BY {groups}",  # noqa: S608
        values,
    )


def find_recorded_names(
    connection: sqlite3.Connection, column: str, workspace: str | None = None
) -> set[str]:
    """Return all values of a column that names a group of calls, but not a time. Raises ``sqlite3.Error``."""
    found = set[str]()
    for part in _split(connection, Filter(), _DAYS):
        within = {f"{part.source.moment} >= ?": part.begin or None, f"{part.source.moment} < ?": part.end}
        where, values = _all({"workspace = ?": workspace} | within)
        sql = f"SELECT DISTINCT {column} FROM {part.source.table} WHERE {where}"  # noqa: S608
        found.update(name for (name,) in connection.execute(sql, values))
    return found


def _split(connection: sqlite3.Connection, wanted: Filter, days: _Source | None) -> Iterator[_Part]:
    """Return the parts of the wanted time: whole days, the whole hours around them, and rows for the rest.

    The parts leave no gap and do not overlap. A part may be empty.
    """
    progress = read_progress(connection)
    begin, end = wanted.since or "", wanted.until or AFTER_ALL
    if wanted.has_exact_status:
        yield _Part(_ROWS, begin, end)
        return
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

    There is no index by model or status, so such calls are looked for only in the hours that have some.
    """
    if not wanted.is_rare:
        yield wanted.since, wanted.until
        return
    coarse = wanted.with_status_class()
    for part in reversed(list(_split(connection, coarse, days=None))):
        if part.source is not _HOURS:
            yield part.begin, part.end
            continue
        where, values = _all(coarse.conditions(_HOURS) | {"hour >= ?": part.begin, "hour < ?": part.end})
        sql = f"SELECT DISTINCT hour FROM rollups WHERE {where} ORDER BY hour DESC"  # noqa: S608
        for (hour,) in connection.execute(sql, values):
            yield hour, hour + AFTER_ALL
