"""How a table's columns are named and shown: one rule for each column name or its unit. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from addon.console import display
from addon.console.charts.bar import draw_bar
from addon.console.charts.svg import Svg

type Mark = Literal["ok", "warn", "bad", "info", "off"]
"""The meaning of a badge, with a colour and a sign of its own."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One value as a page shows it.

    | field | is |
    |---|---|
    | ``title`` | more, for a tooltip: the exact value |
    | ``kind`` | how it is aligned and marked up |
    | ``mark`` | what a badge means |
    | ``iso`` | of a moment, as ``datetime`` of HTML |
    | ``svg`` | a small chart after the text |
    | ``note`` | a second, muted text below it |
    """

    text: str
    title: str = ""
    kind: Literal["text", "name", "whole", "number", "moment", "badge", "nothing"] = "text"
    mark: Mark = "off"
    iso: str = ""
    svg: Svg | None = None
    note: str = ""

    @property
    def is_number(self) -> bool:
        return self.kind == "number"


NOTHING: Final = Cell(display.NOTHING, kind="nothing")

HEADINGS: Final[Mapping[str, str]] = {
    "id": "ID",
    "q": "Search",
    "at": "Time (UTC)",
    "created_at": "Time (UTC)",
    "model_slug": "Model",
    "requested_model": "Requested model",
    "upstream_model_id": "Provider's model",
    "deployment": "Place",
    "api": "API",
    "platform_key": "Platform key",
    "key_id": "Key",
    "end_user": "End user",
    "client_request_id": "Client's request ID",
    "usage_source": "Counted by",
    "tpm": "Tokens a minute",
    "error_code": "Error",
    "retail_nanousd": "Spend",
    "wholesale_nanousd": "Wholesale",
    "prompt_tokens": "Input tokens",
    "completion_tokens": "Output tokens",
    "total_tokens": "Tokens",
    "cached_tokens": "Cached tokens",
    "cache_write_tokens": "Cache write tokens",
    "reasoning_tokens": "Reasoning tokens",
    "first_byte_ms": "First byte",
    "duration_ms": "Duration",
    "status_class": "Status",
    "resends": "Sent again",
    "reported_nanousd": "Reported cost",
    "cache_write_1h_tokens": "Tokens cached for an hour",
    "audio_input_tokens": "Sound tokens",
    "cached_audio_tokens": "Cached sound tokens",
    "image_input_tokens": "Picture tokens",
    "audio_output_tokens": "Sound tokens of the answer",
    "stream": "Streamed",
    "fallback": "Fallback",
    "byok": "BYOK",
    "byok_only": "BYOK only",
}
"""The headings of columns whose name in words is not clear enough."""

_MAX_WHOLE_CHARS: Final = 1_000

_UNITS: Final = (
    "_microusd_per_mtok",
    "_usd_per_mtok",
    "_nanousd",
    "_percent",
    "_share",
    "_rate",
    "_bytes",
    "_ms",
    "_at",
    "_s",
)

_MARKS: Final[Mapping[str, Mark]] = {"2": "ok", "3": "info", "4": "warn", "5": "bad"}


def heading(column: str) -> str:
    """Return a column's name in words, without its unit."""
    if column in HEADINGS:
        return HEADINGS[column]
    unit = next((one for one in _UNITS if column.endswith(one) and one not in {"_rate", "_share"}), "")
    words = column.removesuffix(unit).replace("_", " ").strip() or column
    words = words.replace(" id", " ID").replace("byok", "BYOK").replace("rpm", "RPM")
    return words[:1].upper() + words[1:] + (" (UTC)" if unit == "_at" else "")


def make_cell(column: str, value: Any) -> Cell:
    """Return how a page shows a value of a column. The column's name says the unit."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, Cell):
        return value
    if column in _BY_NAME:
        return _BY_NAME[column](value)
    if isinstance(value, bool):
        return yes_or_no(value)
    if isinstance(value, int | float):
        make = next((make for unit, make in _BY_UNIT.items() if column.endswith(unit)), _number)
        return make(value)
    if (column == "at" or column.endswith("_at")) and (found := display.moment(value)):
        return Cell(found.text, found.exact, "moment", iso=found.iso)
    if isinstance(value, list | tuple | set | frozenset):
        return text_cell(", ".join(str(one) for one in value))
    return text_cell(value)


def text_cell(value: object) -> Cell:
    """Return a text of others, with the whole of it in the title where the column may cut it off."""
    shown = display.text(value)
    return Cell(shown, shown if len(shown) > 24 else "", "name")


def whole_cell(value: object) -> Cell:
    """Return a text that a table does not cut off. It may have several lines."""
    return Cell(display.text(value, _MAX_WHOLE_CHARS), kind="whole")


def end_cell(value: str, now: datetime) -> Cell:
    """Return when something ends: with the time of day where that is near."""
    made = make_cell("ends_at", value)
    end = datetime.fromisoformat(value)
    if end - now < timedelta(days=2):
        return replace(
            made, text=f"{made.text[:16]} (in {display.duration((end - now).total_seconds() * 1_000)})"
        )
    return replace(made, text=f"{made.text[:10]} (in {display.count((end - now).days)} days)")


def badge(value: str, mark: Mark, title: str = "") -> Cell:
    """Return a word with a sign and a colour."""
    return Cell(display.text(value), title, "badge", mark)


def yes_or_no(value: object) -> Cell:
    """Return a truth as a word."""
    return Cell("yes" if value else "no", kind="text")


def status_badge(value: object) -> Cell:
    """Return an HTTP status, or its class such as ``4xx``, as a badge."""
    return badge(str(value), _MARKS.get(str(value)[:1], "off"))


def bar_cell(used: float, cap: float, label: str = "", held: float = 0) -> Cell:
    """Return a bar of how much of a cap is used, with the percent as text. ``label`` says it in words."""
    shown = display.percent(used / cap) if cap > 0 else "100%"
    return Cell(shown, label, "number", svg=draw_bar(used, cap, label or f"{shown} used", held))


def with_note(cell: Cell, note: str) -> Cell:
    """Return a cell with a second, muted text below it."""
    return cell if cell.kind == "nothing" else replace(cell, note=note)


def _number(value: float) -> Cell:
    return Cell(display.count(value), kind="number")


def _money(value: int) -> Cell:
    return Cell(display.money(value), display.exact_money(value), "number")


def _duration(value: float) -> Cell:
    return Cell(display.duration(value), f"{display.count(value)} ms", "number")


def _hour(value: object) -> Cell:
    """Return an hour of the ledger, such as ``2026-01-31T12``."""
    shown = display.text(value).replace("T", " ")
    return Cell(f"{shown}:00" if len(shown) == 13 else shown, "UTC", "moment", iso=f"{value}:00Z")


def _within_hour(value: object) -> Cell:
    """Return the hour of something whose minute is not kept, so that it does not look like a time."""
    hour = _hour(value)
    return replace(hour, text=f"{hour.text} to {hour.text[11:14]}59") if hour.text.endswith(":00") else hour


def _day(value: object) -> Cell:
    return Cell(display.text(value), "UTC", "moment", iso=display.text(value))


_BY_NAME: Final[Mapping[str, Callable[[Any], Cell]]] = {
    "status": status_badge,
    "status_class": status_badge,
    "stream": yes_or_no,
    "fallback": yes_or_no,
    "hour": _hour,
    "last_hour": _within_hour,
    "day": _day,
}
_BY_UNIT: Final[Mapping[str, Callable[[Any], Cell]]] = {
    "_microusd_per_mtok": lambda value: Cell(display.price(value), kind="number"),
    "_nanousd": _money,
    "_ms": _duration,
    "_s": lambda value: Cell(display.duration(value * 1_000), f"{display.count(value)} s", "number"),
    "_percent": lambda value: Cell(display.percent(value / 100), kind="number"),
    "_share": lambda value: Cell(display.percent(value), kind="number"),
    "_rate": lambda value: Cell(display.percent(value), kind="number"),
}


def is_number_column(column: str, cells: Sequence[Cell]) -> bool:
    """Return whether a column is aligned as numbers. The name of a column decides where it has no value."""
    if any(cell.kind != "nothing" for cell in cells):
        return any(cell.is_number for cell in cells)
    return any(column.endswith(unit) for unit in _BY_UNIT)
