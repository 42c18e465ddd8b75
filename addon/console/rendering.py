"""``render``: a template as HTML, with the names and the parts (``{% module NAME(...) %}``) that every template has."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tornado.template import Loader

from addon.console.cells import (
    badge,
    bar_cell,
    end_cell,
    heading,
    make_cell,
    text_cell,
    whole_cell,
    with_note,
)
from addon.console.changes.links import ChangeLinks, ChangesOff, Diff, make_edit_link
from addon.console.display import FUNCTIONS
from addon.console.frame import Frame
from addon.console.pages import NAVIGATION
from addon.console.parts.data_table import DataTable
from addon.console.parts.field import Field, FormToken
from addon.console.parts.figures import Chart, Tile, Tiles
from addon.console.parts.filters import FilterChips, FilterForm, Pager, TimePicker
from addon.console.parts.part import Part
from addon.console.parts.values import Code, Facts, Notice
from addon.console.urls import make_link, make_link_here

PARTS: Final[Mapping[str, type[Part]]] = {
    one.__name__: one
    for one in (
        *(DataTable, TimePicker, FilterChips, FilterForm, Tiles, Chart),
        *(Facts, Pager, Notice, Code, Field, FormToken, ChangeLinks, ChangesOff, Diff),
    )
}
"""The parts, by the name of their class."""

_TEMPLATES: Final = Loader(str(Path(__file__).parent / "templates"))
"""All templates, each compiled once. They escape every value."""


def render(template: str, frame: Frame, **values: Any) -> bytes:
    """Return a template with ``values``. They may replace what ``make_namespace`` gives to all templates."""
    return _TEMPLATES.load(template).generate(**{**make_namespace(frame), **values})


def make_namespace(frame: Frame) -> dict[str, Any]:
    """Return what all templates have: the functions of ``display``, links, makers of cells, the parts and the frame.

    A page may have ``notices``.
    """
    path, query = frame.path, frame.query
    return {
        **FUNCTIONS,
        "heading": heading,
        "cell": make_cell,
        "badge": badge,
        "text_cell": text_cell,
        "end_cell": end_cell,
        "whole_cell": whole_cell,
        "bar_cell": bar_cell,
        "with_note": with_note,
        "Tile": Tile,
        "link": lambda to, *names, **changes: make_link(query, to, names, changes),
        "here": lambda **changes: make_link_here(path, query, changes),
        "edit_link": make_edit_link(frame),
        "navigation": NAVIGATION,
        "is_logged_in": frame.is_logged_in,
        "notices": (),
        # Tornado compiles ``{% module NAME(...) %}`` to a call of this object's attribute.
        "_tt_modules": _Parts(frame),
    }


class _Parts:
    """The parts of ``PARTS`` as functions that return HTML, on the page of one frame."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def __getattr__(self, name: str) -> Callable[..., str]:
        return PARTS[name](self._frame, self._show).render

    def _show(self, template: str, /, **values: Any) -> str:
        return render(template, self._frame, **values).decode()
