"""Spend over time on the front page, as a chart and as the table behind it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote, urlencode

from addon.console import display
from addon.console.charts.stacked_bars import Series, StackedBars, draw_stacked_bars
from addon.console.query import ParameterError, Query
from addon.console.time_range import PARAMETERS as TIMES
from addon.console.time_range import TimeRange
from addon.console.view import Reading
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.figures import STEPS_S, Groups, Step, merge_groups, rank, read_figures
from addon.text.table import Table
from policies.model import Workspace
from policies.tags import is_tag

SPLITS: Final = ("model", "key", "workspace", "user", "api")
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "model": ("model_slug",),
    "key": ("workspace", "key_id"),
    "workspace": ("workspace",),
    "user": ("end_user",),
    "api": ("api",),
}
_FILTERS: Final[Mapping[str, tuple[str, ...]]] = {"key": ("workspace", "key"), "user": ("end_user",)}
LARGEST: Final = 6
"""How many names have a colour of their own. All others are one."""
OTHER: Final = "other"
NONE: Final = "none"
"""The name of calls that have no user, or lack a tag."""

_STEPS: Final[Sequence[tuple[timedelta, Step]]] = (
    (timedelta(hours=3), "5min"),
    (timedelta(days=2), "hour"),
    (timedelta(days=8), "6h"),
)


type _Amounts = dict[tuple[str, ...], list[int]]
"""An amount of each step, by name."""


@dataclass(frozen=True, slots=True)
class Spend:
    """Spend over time by the columns ``names``. In ``table`` these are None in the rows of all other names."""

    table: Table
    names: Sequence[str]
    step: Step
    chart: StackedBars


def choose_step(time: TimeRange) -> Step:
    """Return the step of a chart about a time: at most some sixty of them, and days for longer times."""
    return next((step for length, step in _STEPS if time.length <= length), "day")


def parse_split(query: Query) -> str:
    """Return what the spend is split by: one of ``SPLITS``, or ``tag:NAME``. Raises ParameterError."""
    by = query.text("by") or "model"
    if by not in SPLITS and not is_tag(by):
        raise ParameterError("by", f"must be one of {', '.join(SPLITS)}, or tag:NAME")
    return by


def list_splits(workspaces: Iterable[Workspace], by: str) -> Sequence[str]:
    """Return the splits that the page offers: with the tags that have a budget, and the one that is chosen."""
    tags = {one.of for workspace in workspaces for one in workspace.budgets if is_tag(one.of)}
    return [*SPLITS, *sorted(tags | ({by} - {*SPLITS}))]


def load_spend(reading: Reading, time: TimeRange, wanted: Filter, by: str, by_model: Groups) -> Spend:
    """Return the spend of each step. ``by_model`` has the figures by step and model."""
    step, names = choose_step(time), _COLUMNS.get(by, (by,))
    groups = by_model if by == "model" else read_figures(reading.ledger, names, wanted, step)
    begins = _list_begins(time, step)
    spent, calls = _add_up(groups, begins, _find_largest(groups, names))
    table = _make_table(begins, names, spent, calls)
    given = reading.query.given()
    series = [
        Series(_name_series(name), amounts, _make_url(given, by, name), is_rest=not name)
        for name, amounts in spent.items()
    ]
    title = f"Spend by {by}, {time.begin:%Y-%m-%d %H:%M} to {time.end:%Y-%m-%d %H:%M} UTC"
    chart = draw_stacked_bars("spend", title, begins, time.end, series, display.money)
    return Spend(table, names, step, chart)


def _name_series(name: Sequence[str]) -> str:
    return (" · ".join(name) or NONE) if name else OTHER


def _find_largest(groups: Groups, names: Sequence[str]) -> Sequence[tuple[str, ...]]:
    """Return the names that get their own colour. The rest becomes "others", unless it is only one name."""
    ordered = rank(merge_groups(groups, *range(1, len(names) + 1)))
    return ordered if len(ordered) <= LARGEST + 1 else ordered[:LARGEST]


def _add_up(
    groups: Groups, begins: Sequence[datetime], largest: Sequence[tuple[str, ...]]
) -> tuple[_Amounts, _Amounts]:
    """Return the nano-USD and the calls of each of ``largest``, and of all others under ``()``."""
    spent: _Amounts = {name: [0] * len(begins) for name in largest}
    calls: _Amounts = {name: [0] * len(begins) for name in largest}
    places = {begin: _find_place(begins, begin) for begin in {name[0] for name in groups}}
    for (begin, *name), figures in groups.items():
        place = places[begin]
        kept = tuple(name) if tuple(name) in spent else ()
        spent.setdefault(kept, [0] * len(begins))[place] += figures.retail_nanousd
        calls.setdefault(kept, [0] * len(begins))[place] += figures.calls
    return spent, calls


def _make_table(begins: Sequence[datetime], names: Sequence[str], spent: _Amounts, calls: _Amounts) -> Table:
    rows = [
        (
            begin.isoformat(timespec="milliseconds"),
            *(name or (None,) * len(names)),
            calls[name][place],
            amounts[place],
        )
        for place, begin in enumerate(begins)
        for name, amounts in spent.items()
        if calls[name][place]
    ]
    return Table(("begins_at", *names, "calls", "retail_nanousd"), rows)


def _make_url(given: Mapping[str, str], by: str, name: Sequence[str]) -> str:
    """Return the URL of what a name in the legend is about, with the time and the filters of this page."""
    if not any(name) or is_tag(by):
        return ""
    filters = _FILTERS.get(by, (by,))
    kept = {one: value for one, value in given.items() if one != "by"} | dict(zip(filters, name, strict=True))
    if by != "workspace":
        return f"/calls?{urlencode(kept)}"
    times = {one: value for one, value in kept.items() if one in TIMES}
    return f"/workspaces/{quote(name[0], safe='')}" + (f"?{urlencode(times)}" if times else "")


def _list_begins(time: TimeRange, step: Step) -> Sequence[datetime]:
    """Return the beginning of each step that has a part of the time."""
    length = timedelta(seconds=STEPS_S[step])
    first = datetime.fromtimestamp(int(time.begin.timestamp()) // STEPS_S[step] * STEPS_S[step], UTC)
    count = -(-(time.end - first) // length)
    return [first + length * place for place in range(max(count, 1))]


def _find_place(begins: Sequence[datetime], begin: str) -> int:
    """Return which of ``begins`` a beginning of the ledger (``2026-01-31T12``) is."""
    moment = datetime.fromisoformat(begin).replace(tzinfo=UTC)
    place = (moment - begins[0]) // (begins[1] - begins[0]) if len(begins) > 1 else 0
    return min(max(place, 0), len(begins) - 1)
