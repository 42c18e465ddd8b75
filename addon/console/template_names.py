"""The names that every template has: the functions, and the parts of ``{% module NAME(...) %}``."""

from typing import Any, Final

from addon.console.cells import (
    badge,
    end_cell,
    heading,
    make_cell,
    status_badge,
    text_cell,
    whole_cell,
    with_note,
)
from addon.console.changes.links import ChangeLinks, ChangesOff, Diff
from addon.console.display import FUNCTIONS
from addon.console.parts.data_table import DataTable
from addon.console.parts.field import Field
from addon.console.parts.figures import Bar, Chart, Tile, Tiles, bar_cell
from addon.console.parts.filters import FilterChips, FilterForm, Pager, TimePicker
from addon.console.parts.values import Badge, Code, Facts, Notice, Value
from addon.console.query import Query
from addon.console.urls import make_link, make_link_here

PARTS: Final = {
    one.__name__: one
    for one in (
        *(DataTable, TimePicker, FilterChips, FilterForm, Tiles, Bar, Chart, Badge, Value),
        *(Facts, Pager, Notice, Code, Field, ChangeLinks, ChangesOff, Diff),
    )
}
"""The parts, by the name of their class."""


def make_namespace(path: str, query: Query) -> dict[str, Any]:
    """Return the functions that all templates have: those of ``display``, links, and makers of cells.

    A page may have ``notices``.
    """
    return {
        **FUNCTIONS,
        "heading": heading,
        "cell": make_cell,
        "badge": badge,
        "status_badge": status_badge,
        "text_cell": text_cell,
        "end_cell": end_cell,
        "whole_cell": whole_cell,
        "bar_cell": bar_cell,
        "with_note": with_note,
        "Tile": Tile,
        "link": lambda to, *names, **changes: make_link(query, to, names, changes),
        "notices": (),
        "here": lambda **changes: make_link_here(path, query, changes),
    }
