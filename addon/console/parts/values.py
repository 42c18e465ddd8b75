"""The parts that show values and texts: facts, notices and code."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from addon.console.cells import Cell, Mark, heading, make_cell
from addon.console.display import printable
from addon.console.parts.part import Part


class Facts(Part):
    """Names and values. A fact is ``(column, value)``, or ``(column, value, url)``; a ``Cell`` is shown as it is.

    A column with a blank or a capital letter is a heading already.
    """

    def render(self, facts: Iterable[Sequence[Any]]) -> str:
        shown = [
            (
                str(column) if str(column)[:1].isupper() or " " in str(column) else heading(column),
                _show_whole(make_cell(column, value)),
                more[0] if more else None,
            )
            for column, value, *more in facts
        ]
        return self.show("facts", facts=shown)


def _show_whole(cell: Cell) -> Cell:
    """Return a long text so that its lines end after a slash where they can."""
    return replace(cell, kind="whole") if cell.kind == "name" and "/" in cell.text else cell


class Notice(Part):
    """A box with a sentence that people should see. ``mark`` says how bad it is."""

    def render(self, text: str, mark: Mark = "info", title: str = "", url: str = "", link: str = "") -> str:
        return self.show("notice", text=printable(text), mark=mark, title=title, url=url, link=link)


class Code(Part):
    """Lines of a file, or JSON, as they are. Unprintable characters are escapes."""

    def render(self, text: str, label: str = "") -> str:
        return self.show("code", text=text, label=label)
