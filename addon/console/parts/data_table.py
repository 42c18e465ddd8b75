"""``DataTable``: a table of a view."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from addon.console.cells import Cell, heading, is_number_column, make_cell
from addon.console.pages import API
from addon.console.parts.part import Part
from addon.console.urls import join_url
from addon.text.table import Table

type Link = Callable[[Mapping[str, Any]], str | None]
"""Returns the URL of a cell, given its row."""
MAX_NARROW_COLUMNS: Final = 4
"""The most columns that a telephone shows next to each other. It shows the rows of a wider table as cards.

A column with whole texts or with charts counts twice.
"""

type MakeCell = Callable[[Mapping[str, Any]], Cell]
"""Returns a cell that is shown in its own way, given its row."""


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
        cells: Mapping[str, MakeCell] | None = None,
        headings: Mapping[str, str] | None = None,
        sortable: Sequence[str] = (),
        usual_sort: str = "",
        empty: str = "Nothing in this time.",
        note: str = "",
        heads: bool = True,
        downloads: bool = True,
    ) -> str:
        shown = tuple(columns or table.columns)
        rows = [_make_row(record, shown, cells or {}, links or {}) for record in table.records()]
        return self.show(
            "table",
            name=name,
            caption=caption,
            headings=[(column, (headings or {}).get(column) or heading(column)) for column in shown],
            numbers=[
                is_number_column(column, [row[place][0] for row in rows])
                for place, column in enumerate(shown)
            ],
            rows=rows,
            empty=empty,
            note=note,
            heads=heads,
            downloads=downloads,
            sortable=sortable,
            sort=self.query.text("sort") or usual_sort,
            is_wide=_is_wide(len(shown), rows),
            here=self.here,
            csv_url=self._data_url(table=name, format="csv"),
            json_url=self._data_url(table=name),
        )

    def _data_url(self, **changes: str) -> str:
        return join_url(API + self.path, {**self.query.given(), **changes})


def _is_wide(columns: int, rows: Sequence[Sequence[tuple[Cell, str | None]]]) -> bool:
    if columns > MAX_NARROW_COLUMNS:
        return True
    wide = {place for row in rows for place, (cell, _) in enumerate(row) if cell.kind == "whole" or cell.svg}
    return columns + len(wide) > MAX_NARROW_COLUMNS


def _make_row(
    record: Mapping[str, Any],
    columns: Sequence[str],
    cells: Mapping[str, MakeCell],
    links: Mapping[str, Link],
) -> list[tuple[Cell, str | None]]:
    """Return the cell of each column, and where it leads to."""
    return [
        (
            cells[column](record) if column in cells else make_cell(column, record[column]),
            links[column](record) if column in links else None,
        )
        for column in columns
    ]
