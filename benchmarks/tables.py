"""Tables of figures, for a terminal or in Markdown."""

from collections.abc import Iterable, Sequence

from tabulate import tabulate

type Cell = str | float | None

_style = "simple"


def use_markdown() -> None:
    """Make all further tables in Markdown."""
    global _style
    _style = "github"


def table(rows: Iterable[Iterable[Cell]], headers: Sequence[str], formats: Sequence[str] = ()) -> str:
    """Return a table. ``formats`` has the format of each column's numbers. Text stays as it is."""
    return tabulate(
        [[_cell(cell, position, formats) for position, cell in enumerate(row)] for row in rows],
        headers,
        tablefmt=_style,
        disable_numparse=True,
        colalign=["right" if form else "left" for form in formats] or None,
    )


def _cell(cell: Cell, position: int, formats: Sequence[str]) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str) or not formats:
        return str(cell)
    return format(cell, formats[position])
