"""Tables as text that fit a given number of columns of a terminal. Pure.

A table that is too wide becomes narrower in steps, until it fits:

| step | what changes |
|---|---|
| 1 | long words of headers are hyphenated |
| 2 | long texts are shortened in the middle, the longest ones first: ``a long…label``. All else stays whole |
| 3 | optional columns are left out before texts become shorter than ``GOOD_TEXT`` |
| 4 | texts become as short as ``MIN_TEXT`` |
| 5 | other columns are left out, from the right, but for ids |

``TextTable.left_out`` names the columns that are left out. An id is for the next command, so it is never shortened: a
table of long ids may be too wide.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

GAP: Final = "  "
MIN_HEADER: Final = 6
"""The length to which words of headers are hyphenated."""
GOOD_TEXT: Final = 14
MIN_TEXT: Final = 8
"""The widths to which texts are shortened before an optional column, or any other, is left out."""

type Kind = Literal["text", "id", "word", "number"]
"""Numbers are aligned to the right. Only texts are shortened. Ids are not left out unless they are optional."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column with its cells. ``header`` may have several lines."""

    header: str
    kind: Kind
    cells: Sequence[str]

    @property
    def cell_width(self) -> int:
        return max((width_of(cell) for cell in self.cells), default=0)

    @property
    def full_width(self) -> int:
        return max(self.cell_width, *(width_of(line) for line in self.header.split("\n")))

    @property
    def least_width(self) -> int:
        """The width with a hyphenated header and whole cells."""
        return min(self.full_width, max(self.cell_width, MIN_HEADER))


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table as text, and the places of the columns that did not fit."""

    text: str
    left_out: Sequence[int]


def width_of(text: str) -> int:
    """Return how many columns of a terminal a printable text takes."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def shorten(text: str, width: int) -> str:
    """Return ``text`` in at most ``width`` columns: its beginning and its end, with ``…`` in between."""
    if width_of(text) <= width:
        return text
    head = _take(text, width // 2)
    return f"{head}…{_take(text[::-1], width - 1 - width_of(head))[::-1]}"


def format_columns(columns: Sequence[Column], width: int | None, optional: Sequence[int] = ()) -> TextTable:
    """Return a table of at most ``width`` columns, if its ids fit; None means without a bound.

    ``optional`` are the places of the columns to leave out first, in this order. The others follow from the right. The
    first column stays.
    """
    others = (place for place in range(len(columns) - 1, 0, -1) if columns[place].kind != "id")
    order = [*optional, *(place for place in others if place not in optional)]
    tries = [(count, GOOD_TEXT) for count in range(len(optional) + 1)]
    tries += [(count, MIN_TEXT) for count in range(len(optional), len(order) + 1)]
    for count, min_text in tries:
        left_out = sorted(order[:count])
        shown = [column for place, column in enumerate(columns) if place not in left_out]
        widths = _fit(shown, width, min_text)
        if widths or count == len(order):
            widths = widths or [_least(column) for column in shown]
            return TextTable("\n".join(_lines(shown, widths)), left_out)
    raise AssertionError("the last try has a table")


def _least(column: Column) -> int:
    return min(column.least_width, MIN_TEXT) if column.kind == "text" else column.least_width


def _fit(columns: Sequence[Column], width: int | None, min_text: int) -> list[int]:
    """Return the widths of the columns, or nothing when they do not fit."""
    full = [column.full_width for column in columns]
    if width is None:
        return full
    room = width - len(GAP) * (len(columns) - 1)
    if sum(full) <= room:
        return full
    widths = [column.least_width for column in columns]
    texts = [place for place, column in enumerate(columns) if column.kind == "text"]
    longest = max((widths[place] for place in texts), default=0)
    for cap in range(longest, min(min_text, longest) - 1, -1):
        for place in texts:
            widths[place] = min(widths[place], cap)
        if sum(widths) <= room:
            return _widen(widths, full, room)
    return []


def _widen(widths: list[int], full: Sequence[int], room: int) -> list[int]:
    """Use the room that is left for whole headers and texts, from the left to the right."""
    for place, wanted in enumerate(full):
        if (more := wanted - widths[place]) <= room - sum(widths):
            widths[place] += more
    return widths


def _lines(columns: Sequence[Column], widths: Sequence[int]) -> Iterator[str]:
    headers = [_break_header(column.header, width) for column, width in zip(columns, widths, strict=True)]
    height = max(len(lines) for lines in headers)
    for number in range(height):
        yield _join(columns, widths, [lines[number] if number < len(lines) else "" for lines in headers])
    yield GAP.join("-" * width for width in widths)
    for row in zip(*(column.cells for column in columns), strict=True):
        yield _join(columns, widths, row)


def _join(columns: Sequence[Column], widths: Sequence[int], row: Sequence[str]) -> str:
    cells = []
    for column, width, cell in zip(columns, widths, row, strict=True):
        shown = shorten(cell, width)
        blanks = " " * (width - width_of(shown))
        cells.append(blanks + shown if column.kind == "number" else shown + blanks)
    return GAP.join(cells).rstrip()


def _break_header(header: str, width: int) -> list[str]:
    """Return the lines of a header, with hyphens in words that are too long."""
    lines = []
    for line in header.split("\n"):
        for word in [line] if width_of(line) <= width else line.split():
            rest = word
            while len(rest) > width > 1:
                lines.append(f"{rest[: width - 1]}-")
                rest = rest[width - 1 :]
            lines.append(rest)
    return lines


def _take(text: str, width: int) -> str:
    """Return the longest beginning of ``text`` that fits."""
    taken = 0
    for place, char in enumerate(text):
        taken += _char_width(char)
        if taken > width:
            return text[:place]
    return text


def _char_width(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
