"""The tables that totals are read from: rows, sums by hour and sums by day, each for a part of the wanted time.

Source: docs/ledger.md, docs/decisions/triggers-keep-the-rollups.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from addon.store.money.ledger import Ledger
from addon.store.money.reports.call_filter import Filter, join_conditions
from addon.store.money.sums.rollup_schema import AFTER_ALL, bucket_of
from addon.store.money.sums.rollups import DAY_DIGITS, HOUR_DIGITS, Progress, read_progress
from policies.tags import TAG

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
    """A table that sums can be read from.

    ``names`` are the columns that its calls can be grouped and filtered by. The rest is SQL: of its moment, of its
    sums, of columns that it does not have, and of lists of the buckets of its calls.
    """

    table: str
    moment: str
    names: frozenset[str]
    columns: Mapping[str, str]
    sums: Mapping[str, str]
    buckets: Mapping[str, str]

    def column(self, name: str) -> str:
        """Return the SQL of a column that calls are grouped by.

        It is an expression: else SQLite reads all of an index in the order of the groups, for the rows of a short time.
        """
        if name.startswith(TAG):
            return f"coalesce(json_extract(tags, '$.\"{name.removeprefix(TAG)}\"'), '')"
        return self.columns.get(name) or f"coalesce({name}, '')"


_NAMES: Final = frozenset({"workspace", "key_id", "model_slug", "provider", "mode", "status_class"})
DURATIONS: Final = ("first_byte_ms", "duration_ms")
"""The columns whose distributions can be read."""

_KEPT: Final = {name: f"sum({name})" for name in SUMS} | {
    "failed_calls": "coalesce(sum(calls) FILTER (WHERE status_class >= '4'), 0)"
}
_LISTED: Final = {name: f"group_concat({name.removesuffix('_ms')}_buckets)" for name in DURATIONS}
_DAY_OF_HOUR: Final = {"day": f"substr(hour, 1, {DAY_DIGITS})"}
ROWS: Final = Source(
    "usage",
    "created_at",
    _NAMES,
    {
        "day": f"substr(created_at, 1, {DAY_DIGITS})",
        "hour": f"substr(created_at, 1, {HOUR_DIGITS})",
        "status_class": "(status / 100) || 'xx'",
    },
    _KEPT
    | {"calls": "count(*)", "failed_calls": "count(*) FILTER (WHERE status >= 400)"}
    | {name: f"coalesce(sum({name}), 0)" for name in ("prompt_tokens", "cached_tokens", "completion_tokens")},
    {name: f"group_concat(iif({name} IS NULL, NULL, {bucket_of(name)}))" for name in DURATIONS},
)
HOURS: Final = Source("rollups", "hour", _NAMES, _DAY_OF_HOUR, _KEPT, _LISTED)
DAYS: Final = Source("days", "day", _NAMES, {}, _KEPT, {})

_KEPT_SMALL: Final = {name: f"sum({name})" for name in SUMS}
_MODEL: Final = frozenset({"model_slug", "provider"})
_KEY: Final = frozenset({"workspace", "key_id"})
MODEL_HOURS: Final = Source("model_hours", "hour", _MODEL, _DAY_OF_HOUR, _KEPT_SMALL, _LISTED)
MODEL_DAYS: Final = Source("model_days", "day", _MODEL, {}, _KEPT_SMALL, _LISTED)
KEY_HOURS: Final = Source("key_hours", "hour", _KEY, _DAY_OF_HOUR, _KEPT_SMALL, {})


def needs_rows(names: Iterable[str]) -> bool:
    """Return whether only rows can be grouped by all of ``names``: no sums tell users, places, APIs and tags apart."""
    return any(name in ("end_user", "deployment", "api") or name.startswith(TAG) for name in names)


def find_hours(names: Iterable[str], *, has_distributions: bool = False) -> Source:
    """Return the smallest table by hour whose calls can be grouped and filtered by all of ``names``."""
    return _find(names, MODEL_HOURS, None if has_distributions else KEY_HOURS) or HOURS


def find_days(names: Iterable[str], *, has_distributions: bool = False) -> Source | None:
    """Return the smallest such table by day, None when only tables by hour have it all."""
    return _find(names, MODEL_DAYS, None if has_distributions else DAYS)


def _find(names: Iterable[str], *sources: Source | None) -> Source | None:
    wanted = _NAMES.intersection(names)
    return next((source for source in sources if source and wanted <= source.names), None)


class Part(NamedTuple):
    """A time, from ``begin`` until before ``end``, and where its sums are read."""

    source: Source
    begin: str
    end: str

    def select(self, wanted: Filter) -> tuple[str, list[str]]:
        """Return the SQL condition for the wanted calls of this time, and its values."""
        moment = self.source.moment
        within = {f"{moment} >= ?": self.begin or None, f"{moment} < ?": self.end}
        return join_conditions(wanted.conditions(of_rows=self.source is ROWS) | within)


def split_time(
    ledger: Ledger, wanted: Filter, days: Source | None, hours: Source = HOURS, *, of_rows: bool = False
) -> Iterator[Part]:
    """Return the parts of the wanted time: whole days, the whole hours around them, and rows for the rest.

    The parts leave no gap and do not overlap. A part may be empty. ``hours`` is a table by hour. Where it does not
    cover an hour, ``HOURS`` does. With ``of_rows``, all of it is read from rows.
    """
    progress = read_progress(ledger)
    begin, end = wanted.since or "", wanted.until or AFTER_ALL
    if wanted.needs_rows or of_rows:
        yield Part(ROWS, begin, end)
        return
    first_day = _ceil(max(begin, progress.days_from), DAY_DIGITS)
    last_day = min(end, progress.days_until)[:DAY_DIGITS]
    if days is None or first_day >= last_day:
        yield from _split_hours(begin, end, progress, hours)
        return
    yield from _split_hours(begin, first_day, progress, hours)
    yield Part(days, first_day, last_day)
    yield from _split_hours(last_day, end, progress, hours)


def _split_hours(begin: str, end: str, progress: Progress, hours: Source) -> Iterator[Part]:
    first, last = _ceil(max(begin, progress.hours_from), HOUR_DIGITS), end[:HOUR_DIGITS]
    if first >= last:
        yield Part(ROWS, begin, end)
        return
    covered = ended = first
    if hours is not HOURS:
        covered = min(max(first, _ceil(progress.days_from, HOUR_DIGITS)), last)
        ended = max(covered, min(last, progress.days_until[:HOUR_DIGITS]))
    yield Part(ROWS, begin, first)
    yield Part(HOURS, first, covered)
    yield Part(hours, covered, ended)
    yield Part(HOURS, ended, last)
    yield Part(ROWS, last, end)


_MIDNIGHT: Final = "T00:00:00.000+00:00"


def _ceil(moment: str, digits: int) -> str:
    """Return the beginning of the first whole day or hour from ``moment`` on.

    All moments are texts that are compared as texts: ``2026-01-31T12`` is the beginning of its hour, and
    ``2026-01-31T12~`` its end.
    """
    period, rest = moment[:digits], moment[digits:]
    return period if _MIDNIGHT[digits - DAY_DIGITS :].startswith(rest) else period + AFTER_ALL
