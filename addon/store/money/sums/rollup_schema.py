"""The rollups: sums of the rows of ``usage`` by hour and by day, and the triggers that keep them.

A trigger runs in the transaction of the row, whichever program writes, changes or deletes it. So both always agree.
Source: docs/ledger.md, docs/decisions/triggers-keep-the-rollups.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isqrt
from types import MappingProxyType
from typing import Final

from addon.store.money.archives.archive_schema import IS_KEPT

BUCKETS: Final = 40
BUCKET_BOUNDS_MS: Final = tuple(isqrt(16 << step) for step in range(BUCKETS - 1))
"""The largest duration of each bucket but the last: 4 ms × √2 for each step, up to 35 minutes, in whole ms."""

AFTER_ALL: Final = "~"
"""A text after every digit. ``period + AFTER_ALL`` follows all moments of a period, and precedes the next period."""

_CALL: Final = "call."
"""The prefix of a row's columns in the expressions below. A trigger replaces it by NEW or OLD."""


@dataclass(frozen=True, slots=True)
class RollupTable:
    """A table of sums.

    ``groups`` are its primary key, ``sums`` and ``buckets`` the other columns. Each has the SQL expression for one row
    of ``usage``; that of a bucket column is the duration. ``covers`` is the condition for a row to be in the sums.
    """

    name: str
    groups: Mapping[str, str]
    sums: Mapping[str, str]
    covers: str
    buckets: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def period(self) -> str:
        """The column of the hour or the day."""
        return next(name for name in self.groups if name in {"hour", "day"})

    @property
    def columns(self) -> Sequence[str]:
        return (*self.groups, *self.sums, *self.buckets)

    def creation(self) -> str:
        """Return the SQL that creates the table.

        It is not STRICT: a sum beyond 64 bits becomes a float, and does not keep a call out of the ledger.
        """
        texts = [f"{name} TEXT NOT NULL" for name in (*self.groups, *self.buckets)]
        numbers = [f"{name} INTEGER NOT NULL" for name in self.sums]
        key = ", ".join(self.groups)
        return f"CREATE TABLE {self.name} ({', '.join(texts + numbers)}, PRIMARY KEY ({key})) WITHOUT ROWID"

    def triggers(self) -> Sequence[str]:
        """Return the SQL of the triggers: they add a row that is inserted, and subtract a row that is deleted."""
        return (
            self._trigger("INSERT", "NEW", self._addition(bucket_of)),
            self._trigger("UPDATE", "OLD", self._removal()),
            self._trigger("UPDATE", "NEW", self._addition(_short_bucket_of)),
            self._trigger("DELETE", "OLD", self._removal()),
        )

    def kept_removal(self) -> str:
        """Return the SQL of the later trigger of deletions: a call that is archived stays in the sums."""
        covers = f"{self.covers} AND {IS_KEPT}"
        return replace(self, covers=covers)._trigger("DELETE", "OLD", self._removal())

    def build(self) -> str:
        """Return the SQL that adds the rows from one moment up to another."""
        source = "FROM usage AS call WHERE call.created_at >= ? AND call.created_at < ?"
        return self._insertion(f"SELECT {self._values(bucket_of)} {source}")

    def _trigger(self, event: str, row: str, statements: str) -> str:
        sql = (
            f"CREATE TRIGGER {self.name}_{event}_{row} AFTER {event} ON usage WHEN {self.covers}"
            f" BEGIN {statements}; END"
        )
        return sql.replace(_CALL, f"{row}.")

    def _addition(self, bucket: Callable[[str], str]) -> str:
        return self._insertion(f"VALUES ({self._values(bucket)})")

    def _insertion(self, rows: str) -> str:
        sums = [f"{name} = {name} + excluded.{name}" for name in self.sums]
        counts = [f"{name} = {_merged(name)}" for name in self.buckets]
        columns = ", ".join(self.columns)
        return (
            f"INSERT INTO {self.name} ({columns}) {rows} ON CONFLICT DO UPDATE SET {', '.join(sums + counts)}"
        )

    def _removal(self) -> str:
        sums = [f"{name} = {name} - {value}" for name, value in self.sums.items()]
        counts = [f"{name} = {_reduced(name)}" for name in self.buckets]
        group = " AND ".join(f"{name} = {value}" for name, value in self.groups.items())
        buckets = [
            f"iif({value} IS NULL, NULL, '$.' || {_short_bucket_of(value)}) AS place_in_{name}"
            for name, value in self.buckets.items()
        ]
        source = f" FROM (SELECT {', '.join(buckets)})" if buckets else ""
        return (
            f"UPDATE {self.name} SET {', '.join(sums + counts)}{source} WHERE {group};"  # noqa: S608
            f" DELETE FROM {self.name} WHERE {group} AND calls = 0"
        )

    def _values(self, bucket: Callable[[str], str]) -> str:
        counts = [
            f"iif({value} IS NULL, '{{}}', json_object({bucket(value)}, 1))"
            for value in self.buckets.values()
        ]
        return ", ".join([*self.groups.values(), *self.sums.values(), *counts])


def bucket_of(duration: str) -> str:
    """Return the SQL for the number of the bucket of a duration, as text."""
    cases = " ".join(
        f"WHEN {duration} <= {bound} THEN '{step}'" for step, bound in enumerate(BUCKET_BOUNDS_MS)
    )
    return f"CASE {cases} ELSE '{BUCKETS - 1}' END"


def add_up(value: str) -> str:
    """Return the SQL, for any engine, that adds up an expression of ``sums``. A condition, in brackets, counts as 1."""
    return f"sum(iif({value}, 1, 0))" if value.startswith("(") else f"sum({value})"


def _short_bucket_of(duration: str) -> str:
    """Return SQL with the result of ``bucket_of`` that takes ten times as long, for what happens seldom.

    Each connection to the ledger reads the text of all triggers before anything else.
    """
    bounds = ",".join(map(str, BUCKET_BOUNDS_MS))
    return f"((SELECT count(*) FROM json_each('[{bounds}]') WHERE value < {duration}) || '')"  # noqa: S608


def _merged(name: str) -> str:
    """Return the SQL that adds the counts of one call to a column. The call has one bucket, or none."""
    bucket = f"'$.' || substr(excluded.{name}, 3, length(excluded.{name}) - 6)"
    more = f"1 + coalesce(json_extract({name}, {bucket}), 0)"
    return f"iif(excluded.{name} = '{{}}', {name}, json_set({name}, {bucket}, {more}))"


def _reduced(name: str) -> str:
    """Return the SQL that subtracts one call from the counts of a column."""
    place = f"place_in_{name}"
    count = f"json_extract({name}, {place})"
    less = f"iif({count} > 1, json_set({name}, {place}, {count} - 1), json_remove({name}, {place}))"
    return f"iif({place} IS NULL, {name}, {less})"


def _columns(*names: str, prefix: str = "") -> dict[str, str]:
    return {name: f"{prefix}{_CALL}{name}" for name in names}


def _counts(*names: str) -> dict[str, str]:
    return {name: f"coalesce({_CALL}{name}, 0)" for name in names}


HOURS: Final = RollupTable(
    "rollups",
    {"hour": "substr(call.created_at, 1, 13)"}
    | _columns("workspace", "key_id", "model_slug", "provider", "mode")
    | {"status_class": "(call.status / 100) || 'xx'"},
    {
        "calls": "1",
        "fallback_calls": "call.fallback",
        "streamed_calls": "call.stream",
        "estimated_calls": "(call.usage_source = 'estimated')",
        "uncounted_calls": "(call.usage_source = 'none')",
    }
    | _columns("attempts")
    | _counts("prompt_tokens", "completion_tokens", "total_tokens")
    | _counts("cached_tokens", "cache_write_tokens", "reasoning_tokens")
    | _columns("wholesale_nanousd", "retail_nanousd")
    | _counts("first_byte_ms")
    | _columns("duration_ms"),
    "call.created_at >= (SELECT hours_from FROM rollup_progress)",
    {"first_byte_buckets": "call.first_byte_ms", "duration_buckets": "call.duration_ms"},
)
"""The sums of every hour. They cover the rows since ``hours_from``: all rows, except while an older ledger is built."""

_DAY_SUMS: Final = (
    {"calls": "1", "failed_calls": "(call.status >= 400)"}
    | _counts("prompt_tokens", "cached_tokens", "completion_tokens")
    | _columns("wholesale_nanousd", "retail_nanousd")
)
_DAY: Final = {"day": "substr(call.created_at, 1, 10)"}
_UNTIL: Final = "call.created_at < (SELECT days_until FROM rollup_progress)"
_ENDED: Final = f"call.created_at >= (SELECT days_from FROM rollup_progress) AND {_UNTIL}"  # noqa: S608

FIRST_DAYS: Final = (
    RollupTable("model_days", _columns("workspace", "model_slug") | _DAY, _DAY_SUMS, _UNTIL),
    RollupTable("key_days", _columns("workspace", "key_id") | _DAY, _DAY_SUMS, _UNTIL),
)
FIRST_TABLES: Final = (HOURS, *FIRST_DAYS)
"""The tables of the first version. ``DAYS`` replaced those by day."""

DAYS: Final = RollupTable(
    "days",
    _DAY
    | _columns("workspace", "key_id", "model_slug", "provider", "mode")
    | {"status_class": HOURS.groups["status_class"]},
    {name: value for name, value in _DAY_SUMS.items() if name != "failed_calls"},
    _ENDED,
)
"""The sums of ``tollgate usage`` by day. They cover the rows before ``days_until``, which follows the clock by hours.

``days_from`` is their begin: it is empty, except while the rows of an older ledger are added.
So a call that ends now is added to ``rollups`` alone."""

MODEL_HOURS: Final = RollupTable(
    "model_hours",
    {"hour": HOURS.groups["hour"]} | _columns("model_slug", "provider"),
    _DAY_SUMS,
    _ENDED,
    HOURS.buckets,
)
MODEL_DAYS: Final = RollupTable(
    "model_days",
    _DAY | _columns("model_slug", "provider"),
    _DAY_SUMS,
    _ENDED,
    HOURS.buckets,
)
KEY_HOURS: Final = RollupTable(
    "key_hours",
    {"hour": HOURS.groups["hour"]} | _columns("workspace", "key_id"),
    _DAY_SUMS,
    _ENDED,
)
"""The small tables, for pages. A page about a day then reads hundreds of rows instead of tens of thousands."""

SMALL_TABLES: Final = (MODEL_HOURS, MODEL_DAYS, KEY_HOURS)
ENDED_TABLES: Final = (DAYS, *SMALL_TABLES)
"""The tables that cover the rows from ``days_from`` until before ``days_until``."""

TABLES: Final = (HOURS, *ENDED_TABLES)
