"""The shared parts of pages: ``{% module NAME(...) %}`` in a template. Each has a template in ``templates/parts/``."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode

from tornado.web import UIModule

from addon.console.cells import Cell, Mark, badge, heading, make_cell, status_badge, text_cell, whole_cell
from addon.console.charts.bar import draw_bar
from addon.console.charts.stacked_bars import StackedBars
from addon.console.charts.svg import Svg
from addon.console.display import FUNCTIONS, Change, percent, printable
from addon.console.pages import PAGES
from addon.console.query import Query
from addon.console.time_range import LABELS, NAMES, TimeRange
from addon.console.time_range import PARAMETERS as TIMES
from addon.text.table import Table

FILTERS: Final = ("workspace", "key", "model", "provider", "status", "mode")
"""The filters that links carry from one view to another, where the other view has them."""

_POSITIONS: Final = ("before", "after")
"""The ends of parameters that say where in a list a page is. A link that changes anything else drops them."""

API: Final = "/api/v1"
"""What the path of a page's data begins with."""

_MINUTES: Final = "%Y-%m-%dT%H:%M"


def make_namespace(path: str, query: Query) -> dict[str, Any]:
    """Return what all templates have: the functions of ``display``, links, and makers of cells."""
    return {
        **FUNCTIONS,
        "heading": heading,
        "cell": make_cell,
        "badge": badge,
        "status_badge": status_badge,
        "text_cell": text_cell,
        "whole_cell": whole_cell,
        "bar_cell": bar_cell,
        "with_note": with_note,
        "Tile": Tile,
        "link": lambda to, *names, **changes: make_link(query, to, names, changes),
        "here": lambda **changes: make_link_here(path, query, changes),
    }


def make_link(query: Query, to: str, names: Iterable[str], changes: Mapping[str, object]) -> str:
    """Return the URL of a view, with the time and the filters of this page where that view has them.

    ``names`` are the variable parts of its path: ``link("/calls", id)``. A parameter that is None is left out.
    """
    path = "/".join([to.rstrip("/"), *(quote(name, safe="") for name in names)]) or "/"
    page = next((page for page in PAGES if page.matches(path) is not None), None)
    kept = (TIMES | set(FILTERS)) & (page.parameters if page else frozenset())
    given = {name: value for name, value in query.given().items() if name in kept}
    return _join(path, given | _in_words(changes))


def make_link_here(path: str, query: Query, changes: Mapping[str, object]) -> str:
    """Return the URL of this page with some parameters changed. None removes a parameter."""
    given = {name: value for name, value in query.given().items() if not name.endswith(_POSITIONS)}
    return _join(path, given | _in_words(changes))


def _in_words(changes: Mapping[str, object]) -> dict[str, str]:
    """Return parameters as texts. ``from_`` is ``from``, which Python has as a word of its own."""
    return {name.rstrip("_"): "" if value is None else str(value) for name, value in changes.items()}


def _join(path: str, parameters: Mapping[str, str]) -> str:
    given = {name: value for name, value in parameters.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure at the top of a page. ``good`` says which direction of a change is good news, if one is."""

    label: str
    text: str
    exact: str = ""
    change: Change | None = None
    note: str = ""
    url: str = ""
    good: str = ""
    picture: Svg | None = None

    @property
    def news(self) -> str:
        """Return whether the change is good, bad or neither."""
        if self.change is None or not self.good or self.change.direction == "same":
            return "neutral"
        return "good" if self.change.direction == self.good else "bad"


def bar_cell(used: float, cap: float, label: str = "", held: float = 0) -> Cell:
    """Return a bar of how much of a cap is used, with the percent as text. ``label`` says it in words."""
    shown = percent(used / cap) if cap > 0 else "100%"
    return Cell(shown, label, "number", svg=draw_bar(used, cap, label or f"{shown} used", held))


def with_note(cell: Cell, note: str) -> Cell:
    """Return a cell with a second, muted text below it."""
    return cell if cell.kind == "nothing" else replace(cell, note=note)


class Part(UIModule):
    """A shared part."""

    @property
    def query(self) -> Query:
        found: Query = getattr(self.handler, "query", Query({}))
        return found

    @property
    def path(self) -> str:
        return str(self.handler.request.path)

    def here(self, **changes: object) -> str:
        return make_link_here(self.path, self.query, changes)

    def show(self, template: str, **values: Any) -> str:
        return self.render_string(f"parts/{template}.html", **values).decode()


type Link = Callable[[Mapping[str, Any]], str | None]
"""Returns the URL of a cell, given its row."""


class DataTable(Part):
    """A table of a view, with its headings, links, and its data as CSV and JSON.

    | argument | is |
    |---|---|
    | ``name`` | its name in ``View.tables`` |
    | ``columns`` | the columns to show, in this order; all of them unless given |
    | ``links`` | a function for each column with links: it returns the URL, given the row |
    | ``cells`` | a function for each column that is shown in its own way: it returns a ``Cell``, given the row |
    | ``headings`` | headings other than the usual ones |
    | ``sortable`` | columns whose heading sorts by ``sort=COLUMN``, or ``sort=-COLUMN`` for the highest first |
    | ``usual_sort`` | how it is sorted without ``sort`` |
    | ``empty`` | the sentence for a table without rows |
    | ``heads`` | whether the first column names its row |
    | ``downloads`` | whether it has links to its data; a page that was posted has no URL for them |
    """

    def render(
        self,
        name: str,
        table: Table,
        caption: str,
        *,
        columns: Sequence[str] | None = None,
        links: Mapping[str, Link] | None = None,
        cells: Mapping[str, Callable[[Mapping[str, Any]], Cell]] | None = None,
        headings: Mapping[str, str] | None = None,
        sortable: Sequence[str] = (),
        usual_sort: str = "",
        empty: str = "Nothing in this time.",
        note: str = "",
        heads: bool = True,
        downloads: bool = True,
    ) -> str:
        shown = tuple(columns or table.columns)
        records = table.records()
        rows = [
            [
                (
                    cells[column](record) if cells and column in cells else make_cell(column, record[column]),
                    links[column](record) if links and column in links else None,
                )
                for column in shown
            ]
            for record in records
        ]
        return self.show(
            "table",
            name=name,
            caption=caption,
            headings=[(column, (headings or {}).get(column) or heading(column)) for column in shown],
            numbers=[any(row[place][0].is_number for row in rows) for place in range(len(shown))],
            rows=rows,
            empty=empty,
            note=note,
            heads=heads,
            downloads=downloads,
            sortable=sortable,
            sort=self.query.text("sort") or usual_sort,
            here=self.here,
            csv_url=self._data_url(table=name, format="csv"),
            json_url=self._data_url(table=name),
        )

    def _data_url(self, **changes: str) -> str:
        return _join(API + self.path, {**self.query.given(), **changes})


class TimePicker(Part):
    """Links to the usual times, and a form for any other."""

    def render(self, time: TimeRange) -> str:
        links = [
            (LABELS[name], self.here(range=name, from_=None, to=None), name == time.name)
            for name in NAMES
            if name != "custom"
        ]
        kept = {
            name: value
            for name, value in self.query.given().items()
            if name not in TIMES and not name.endswith(_POSITIONS)
        }
        # A form has minutes. The last one begins before the end of the time.
        end = time.end if time.name == "custom" else time.end + timedelta(minutes=1)
        return self.show(
            "time_picker",
            time=time,
            links=links,
            kept=kept,
            begin=time.begin.strftime(_MINUTES),
            end=end.strftime(_MINUTES),
            label=LABELS[time.name],
        )


class FilterChips(Part):
    """The filters of this page's URL, each with a link that removes it."""

    def render(self, names: Sequence[str] = FILTERS) -> str:
        given = self.query.given()
        chips = [(heading(name), given[name], self.here(**{name: None})) for name in names if name in given]
        return self.show("filter_chips", chips=chips, clear=self.here(**dict.fromkeys(names)))


class FilterForm(Part):
    """Fields for filters: a list for each of ``choices``, a text for the others. The rest of the URL stays as it is."""

    def render(self, names: Sequence[str], choices: Mapping[str, Iterable[str]] | None = None) -> str:
        given = self.query.given()
        kept = {
            name: value
            for name, value in given.items()
            if name not in names and not name.endswith(_POSITIONS)
        }
        return self.show(
            "filter_form",
            kept=kept,
            fields=[
                (name, heading(name), given.get(name, ""), _with_given(choices, name, given))
                for name in names
            ],
        )


def _with_given(
    choices: Mapping[str, Iterable[str]] | None, name: str, given: Mapping[str, str]
) -> Sequence[str] | None:
    """Return the choices of a filter with the one that the URL has, None for a text."""
    if choices is None or name not in choices:
        return None
    listed = list(choices[name])
    return listed if given.get(name, "") in ("", *listed) else [given[name], *listed]


class Tiles(Part):
    """Figures, each with its change from the time before."""

    def render(self, tiles: Iterable[Tile], label: str = "Figures") -> str:
        return self.show("tiles", tiles=list(tiles), label=label)


class Bar(Part):
    """How much of a cap is used. ``label`` says it in words."""

    def render(self, used: float, cap: float, label: str, held: float = 0) -> str:
        return draw_bar(used, cap, label, held)


class Chart(Part):
    """A chart with its heading and legend. ``table`` names the table on this page that has the same numbers."""

    def render(self, chart: StackedBars | Svg, caption: str, table: str = "", note: str = "") -> str:
        svg, legend = (chart.svg, chart.legend) if isinstance(chart, StackedBars) else (chart, ())
        return self.show("chart", svg=svg, legend=legend, caption=caption, table=table, note=note)


class Badge(Part):
    """A word with a sign and a colour: of an HTTP status, or of ``mark``."""

    def render(self, text: str, mark: Mark = "off", title: str = "") -> str:
        return self.show("cell", cell=badge(text, mark, title), url=None)


class Value(Part):
    """One value of a column, as a table shows it."""

    def render(self, column: str, value: Any, url: str | None = None) -> str:
        return self.show("cell", cell=make_cell(column, value), url=url)


class Facts(Part):
    """Names and values. A fact is ``(column, value)``, or ``(column, value, url)``; a ``Cell`` is shown as it is.

    A column with a blank or a capital letter is a heading already.
    """

    def render(self, facts: Iterable[Sequence[Any]]) -> str:
        shown = [
            (
                str(column) if str(column)[:1].isupper() or " " in str(column) else heading(column),
                make_cell(column, value),
                more[0] if more else None,
            )
            for column, value, *more in facts
        ]
        return self.show("facts", facts=shown)


class Pager(Part):
    """Links to the pages before and after this one."""

    def render(
        self,
        newer: str | None = None,
        older: str | None = None,
        note: str = "",
        newer_text: str = "Newer",
        older_text: str = "Older",
    ) -> str:
        words = {"newer_text": newer_text, "older_text": older_text}
        return self.show("pager", newer=newer, older=older, note=note, **words)


class Notice(Part):
    """A box with a sentence that people should see. ``mark`` says how bad it is."""

    def render(self, text: str, mark: Mark = "info", title: str = "", url: str = "", link: str = "") -> str:
        return self.show("notice", text=printable(text), mark=mark, title=title, url=url, link=link)


class Code(Part):
    """Lines of a file, or JSON, as they are. Unprintable characters are escapes."""

    def render(self, text: str, label: str = "") -> str:
        return self.show("code", text=text, label=label)


class Field(Part):
    """A field of a form, with its label, a hint, and its error below it.

    ``kind`` is a type of ``<input>``, or ``textarea``, ``select`` or ``checkbox``. ``options`` are texts, or pairs of
    a value and its text.
    """

    def render(
        self,
        name: str,
        label: str,
        value: object = "",
        *,
        kind: str = "text",
        hint: str = "",
        error: str = "",
        options: Iterable[str | tuple[str, str]] = (),
        is_required: bool = False,
        rows: int = 12,
        attributes: Mapping[str, str] | None = None,
    ) -> str:
        pairs = [(one, one or "Any") if isinstance(one, str) else one for one in options]
        return self.show(
            "field",
            name=name,
            label=label,
            value="" if value is None else value,
            kind=kind,
            hint=hint,
            error=error,
            options=pairs,
            is_required=is_required,
            rows=rows,
            attributes=attributes or {},
        )


PARTS: Final = {
    one.__name__: one
    for one in (
        *(DataTable, TimePicker, FilterChips, FilterForm, Tiles, Bar, Chart, Badge, Value),
        *(Facts, Pager, Notice, Code, Field),
    )
}
