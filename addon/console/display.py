"""How pages show values: money, counts, durations, moments, and texts of others. Pure.

Every text that a function returns is plain text. Templates escape it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Final, Literal

from addon.text.unprintable import escape_unprintable
from policies.money import format_nanousd, price_usd_per_mtok

NOTHING: Final = "–"
"""Shown for a value that does not exist."""

MAX_TEXT_CHARS: Final = 256
"""How much of a text of others a page shows."""

_MINUS: Final = "\u2212"
_NANOUSD: Final = 10**9
_SCALES: Final = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K"))


def money(nanousd: int | None) -> str:
    """Return an amount as USD with two decimals; below a dollar with three significant digits: "$0.00156".

    An exact amount has no zeros at its end: "$0.50" is exact, and "$0.500" is rounded.
    """
    if nanousd is None:
        return NOTHING
    amount = abs(nanousd)
    decimals = 2
    if 0 < amount < _NANOUSD:
        # Zeros before the first other digit are not significant.
        decimals = max(2, min(9, 12 - len(str(amount))))
    whole, fraction = divmod(_round(amount, 10 ** (9 - decimals)), 10**decimals)
    digits = f"{fraction:0{decimals}d}"
    is_exact = amount % 10 ** (9 - decimals) == 0
    # A rounded amount below a dollar keeps its zeros: its three digits are significant.
    if is_exact or whole:
        digits = digits.rstrip("0").ljust(2, "0")
    return f"{_sign(nanousd)}${whole:,}.{digits}"


def exact_money(nanousd: int | None) -> str:
    """Return an amount as USD, to the nano-dollar: "$1,234.567890123"."""
    if nanousd is None:
        return NOTHING
    whole, _, decimals = format_nanousd(abs(nanousd)).partition(".")
    return f"{_sign(nanousd)}${int(whole):,}.{decimals}"


def price(microusd_per_mtok: int | None) -> str:
    """Return an exact price in USD per million tokens, with at least two decimals: "$0.15"."""
    if microusd_per_mtok is None:
        return NOTHING
    whole, _, decimals = f"{price_usd_per_mtok(microusd_per_mtok):f}".partition(".")
    return f"${int(whole):,}.{decimals:0<2}"


def count(number: float | None) -> str:
    """Return a number with all its digits: "12,345"."""
    if number is None:
        return NOTHING
    return f"{number:,.6g}" if isinstance(number, float) and not number.is_integer() else f"{int(number):,}"


def short_count(number: int | None) -> str:
    """Return a number with three significant digits: "1.23 M". Numbers below 10,000 have all their digits."""
    if number is None or abs(number) < 10_000:
        return count(number)
    for scale, letter in _SCALES:
        # 999,950 is 1 M, not 1,000 K.
        if abs(number) * 1_000 >= scale * 999.5:
            shown = Decimal(number) / scale
            decimals = 2 if abs(shown) < Decimal("9.995") else 1 if abs(shown) < Decimal("99.95") else 0
            text = f"{shown.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP):,}"
            return f"{text.rstrip('0').rstrip('.') if decimals else text} {letter}"
    return count(number)


def duration(milliseconds: float | None) -> str:
    """Return a duration in the units that fit: "840 ms", "2.4 s", "3 min 20 s", "2 h 5 min", "3 d 4 h"."""
    if milliseconds is None:
        return NOTHING
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 59_950:
        return f"{milliseconds / 1_000:.1f}".removesuffix(".0") + " s"
    seconds = round(milliseconds / 1_000)
    for length, unit, smaller, smaller_unit in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= length:
            rest = seconds % length // smaller
            return f"{seconds // length:,} {unit}" + (f" {rest} {smaller_unit}" if rest else "")
    return f"{seconds} s"


def percent(fraction: float | None) -> str:
    """Return a part of one as percent: 0.123 → "12.3%". A part that is too small to show is "<0.01%"."""
    if fraction is None:
        return NOTHING
    shown = abs(fraction) * 100
    if 0 < shown < 0.01:
        return f"<{_sign(fraction)}0.01%"
    digits = 2 if shown < 1 else 1 if shown < 100 else 0
    text = f"{shown:,.{digits}f}"
    return _sign(fraction) + (text.rstrip("0").rstrip(".") if digits else text) + "%"


@dataclass(frozen=True, slots=True)
class FigureChange:
    """How a figure changed. ``text`` is short, ``spoken`` is a sentence for a title or a screen reader."""

    text: str
    spoken: str
    direction: Literal["up", "down", "same"]


def change(now: float | None, before: float | None) -> FigureChange | None:
    """Return how a figure changed from the time before, None when there is nothing to compare."""
    if now is None or before is None or (not now and not before):
        return None
    if not before:
        return FigureChange("new", "There was none in the time before", "up")
    part = (now - before) / abs(before)
    if abs(part) < 0.005:
        return FigureChange("±0%", "The same as in the time before", "same")
    if part >= 10:
        times = f"{part + 1:,.0f}"
        return FigureChange(f"{times}×", f"{times} times as much as in the time before", "up")
    shown = percent(abs(part))
    if part > 0:
        return FigureChange(f"+{shown}", f"{shown} more than in the time before", "up")
    return FigureChange(f"{_MINUS}{shown}", f"{shown} less than in the time before", "down")


@dataclass(frozen=True, slots=True)
class Moment:
    """A time in UTC: as people read it, with milliseconds, and as ``datetime`` of HTML."""

    text: str
    exact: str
    iso: str


def moment(value: datetime | str | None) -> Moment | None:
    """Return a time of the ledger, None for a text that is none."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if value is None:
        return None
    utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    milliseconds = utc.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
    return Moment(milliseconds[:19], f"{milliseconds} UTC", f"{milliseconds.replace(' ', 'T')}Z")


def text(value: object, limit: int = MAX_TEXT_CHARS) -> str:
    """Return a text of others so that it can do no harm: on one line, without control or direction characters.

    Longer texts end with an ellipsis. Templates escape it as any text.
    """
    whole = escape_unprintable(str(value)).replace("\n", "\\n")
    return whole if len(whole) <= limit else f"{whole[: limit - 1]}…"


def printable(value: str) -> str:
    """Return lines of a file of others. Lines stay lines; other unprintable characters are escapes."""
    return "\t".join(escape_unprintable(part) for part in value.split("\t"))


FUNCTIONS: Final[dict[str, Callable[..., object]]] = {
    one.__name__: one
    for one in (
        *(money, exact_money, price, count, short_count, duration),
        *(percent, change, text, printable),
    )
}
"""The functions of this module that all templates have."""


def _round(amount: int, unit: int) -> int:
    return (2 * amount + unit) // (2 * unit)


def _sign(number: float) -> str:
    return _MINUS if number < 0 else ""
