"""The figures of a page: sums of calls, and distributions of their durations, by step of time and by name.

They are the sums of ``tollgate usage``, from the same tables. Source: docs/ledger.md, docs/console.md.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from addon.store.money.ledger import Ledger
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.distribution import add_buckets, find_percentile
from addon.store.money.reports.sum_sources import (
    DURATIONS,
    KEY_HOURS,
    ROWS,
    SUMS,
    Part,
    Source,
    find_days,
    find_hours,
    needs_rows,
    split_time,
)

type Step = Literal["5min", "hour", "6h", "day"]

STEPS_S: Final[dict[Step, int]] = {"5min": 300, "hour": 3_600, "6h": 21_600, "day": 86_400}
"""The lengths of the steps. Each begins at a multiple of its length from midnight UTC."""

PERCENTS: Final = (50, 95)
PERCENTILES: Final = tuple(f"p{percent}_{name}" for name in DURATIONS for percent in PERCENTS)
"""The columns of the percentiles of ``Figures``."""


@dataclass(slots=True)
class Figures:
    """The sums and distributions of some calls. ``sums`` are in the order of ``SUMS``."""

    sums: list[int] = field(default_factory=lambda: [0] * len(SUMS))
    buckets: tuple[Counter[int], ...] = field(
        default_factory=lambda: tuple(Counter[int]() for _ in DURATIONS)
    )

    def __getattr__(self, name: str) -> int:
        if name in _PLACES:
            return self.sums[_PLACES[name]]
        raise AttributeError(name)

    def add(self, other: "Figures") -> None:
        self.sums = [one + more for one, more in zip(self.sums, other.sums, strict=True)]
        if other.buckets:
            for counts, more_counts in zip(self.buckets, other.buckets, strict=True):
                counts.update(more_counts)

    @property
    def error_rate(self) -> float | None:
        """The part of the calls that failed, see ``find_error_rate``."""
        return find_error_rate(self.failed_calls, self.calls)

    def percentiles(self) -> list[int | None]:
        """Return the values of ``PERCENTILES``: None without distributions."""
        buckets = self.buckets or _no_buckets()
        return [find_percentile(counts, percent) for counts in buckets for percent in PERCENTS]


def find_error_rate(failed_calls: int, calls: int) -> float | None:
    """Return the part of the calls that failed, in millionths; None without calls."""
    return round(failed_calls / calls, 6) if calls else None


def _no_buckets() -> tuple[Counter[int], ...]:
    return tuple(Counter[int]() for _ in DURATIONS)


_PLACES: Final = {name: place for place, name in enumerate(SUMS)}

type Groups = dict[tuple[str, ...], Figures]


def read_figures(
    ledger: Ledger,
    names: Sequence[str],
    wanted: Filter,
    step: Step | None = None,
    *,
    has_distributions: bool = False,
) -> Groups:
    """Return the figures of each group of calls. A group is the columns ``names``, after the beginning of its step.

    ``has_distributions`` reads the distributions, too. Steps of five minutes are read from rows.
    """
    groups: Groups = {}
    needed = [*names, *wanted.columns()]
    days = find_days(needed, has_distributions=has_distributions) if step in (None, "day") else None
    hours = find_hours(needed, has_distributions=has_distributions)
    parts: Iterable[Part] = split_time(ledger, wanted, days, hours, of_rows=needs_rows(names))
    if step == "5min":
        parts = [Part(ROWS, wanted.since or "", wanted.until or "~")]
    for part in parts:
        if part.begin < part.end:
            _add_part(groups, ledger, part, names, wanted, step, has_distributions=has_distributions)
    return groups


def _add_part(
    groups: Groups,
    ledger: Ledger,
    part: Part,
    names: Sequence[str],
    wanted: Filter,
    step: Step | None,
    *,
    has_distributions: bool,
) -> None:
    source = part.source
    where, values = part.select(wanted)
    columns = [source.column(name) for name in names]
    if step:
        columns.insert(0, _step_of(source, step))
    sums = [source.sums[name] for name in SUMS]
    lists = list(source.buckets.values()) if has_distributions else []
    grouped = f"GROUP BY {', '.join(str(place + 1) for place in range(len(columns)))}" if columns else ""
    sql = f"SELECT {', '.join([*columns, *sums, *lists])} FROM {source.table} WHERE {where} {grouped}"  # noqa: S608
    for row in ledger.execute(sql, values):
        _add_row(groups, row, len(columns))


def _add_row(groups: Groups, row: tuple[Any, ...], columns: int) -> None:
    name, sums, lists = row[:columns], row[columns : columns + len(SUMS)], row[columns + len(SUMS) :]
    if not sums[0]:
        return  # The sum of no row at all.
    found = groups.get(name)
    if found is None:
        found = groups[name] = Figures(list(sums), _no_buckets() if lists else ())
    else:
        found.sums = [one + more for one, more in zip(found.sums, sums, strict=True)]
    for counts, listed in zip(found.buckets, lists, strict=False):
        add_buckets(counts, listed)


class KeyUse(NamedTuple):
    """The use of a key since a moment. ``first_hour`` is the hour of its first call since then."""

    first_hour: str
    calls: int
    retail_nanousd: int


def read_key_uses(ledger: Ledger, since: str, workspace: str | None = None) -> dict[tuple[str, str], KeyUse]:
    """Return what each key used since the moment ``since``, by workspace and key id."""
    uses: dict[tuple[str, str], KeyUse] = {}
    wanted = Filter(workspace, since=since)
    for part in split_time(ledger, wanted, None, KEY_HOURS):
        source = part.source
        where, values = part.select(wanted)
        key = f"{source.column('workspace')}, {source.column('key_id')}"
        sql = (
            f"SELECT {key}, substr(min({source.moment}), 1, 13), {source.sums['calls']},"  # noqa: S608
            f" {source.sums['retail_nanousd']} FROM {source.table} WHERE {where} GROUP BY 1, 2"
        )
        for *name, first_hour, calls, retail_nanousd in ledger.execute(sql, values):
            before = uses.get((name[0], name[1]), KeyUse(first_hour, 0, 0))
            uses[name[0], name[1]] = KeyUse(
                min(before.first_hour, first_hour),
                before.calls + calls,
                before.retail_nanousd + retail_nanousd,
            )
    return uses


def _step_of(source: Source, step: Step) -> str:
    """Return the SQL of the beginning of a step, as long as the text of a moment needs to be: ``2026-01-31T12``."""
    moment = source.moment
    match step:
        case "5min":
            return f"substr({moment}, 1, 15) || CASE WHEN substr({moment}, 16, 1) < '5' THEN '0' ELSE '5' END"
        case "hour":
            return f"substr({moment}, 1, 13)"
        case "6h":
            begins = " ".join(
                f"WHEN substr({moment}, 12, 2) >= '{hour}' THEN '{hour}'" for hour in (18, 12, "06")
            )
            return f"substr({moment}, 1, 11) || CASE {begins} ELSE '00' END"
        case "day":
            return f"substr({moment}, 1, 10)"


def merge_groups(groups: Groups, *places: int) -> Groups:
    """Return larger groups: all groups with the same values at ``places`` become one."""
    merged: Groups = {}
    for name, figures in groups.items():
        kept = tuple(name[place] for place in places)
        if kept not in merged:
            merged[kept] = Figures()
        merged[kept].add(figures)
    return merged


def rank(groups: Groups) -> list[tuple[str, ...]]:
    """Return the names of groups, those that cost most first, as ``tollgate usage`` does."""
    return sorted(groups, key=lambda name: (-groups[name].retail_nanousd, -groups[name].calls, name))
