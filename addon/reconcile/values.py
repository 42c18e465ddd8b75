"""Values in exports: counts, amounts and times as vendors write them. Pure.

Each function raises ``ValueError`` with what is wrong and what to do, as a part of a sentence.
"""

import re
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

LARGEST: Final = 10**18
"""The largest count, and the largest amount in nano-USD, a billion USD: sums of them stay plausible."""

NANOUSD_PER_USD: Final = 10**9

_NUMBER: Final = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{0,80})?(?:[eE][+-]?[0-9]{1,2})?")
_THOUSANDS: Final = re.compile(r"-?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?")
"""Commas between thousands. Another comma may be one before decimals."""
_EXACT: Final = Context(prec=200)
_MAX_SHOWN: Final = 40
_LAST_SECOND: Final = 253_402_300_799


def parse_count(text: str) -> int:
    """Return a count: ``31422``, ``31422.0`` or ``31,422``. An empty text is 0."""
    number = _parse_number(text.strip()) if text.strip() else Decimal(0)
    if number is None or number != number.to_integral_value() or not 0 <= number <= LARGEST:
        raise ValueError(f'"{shorten(text)}" is not a count from 0 to 10¹⁸; export the file again')
    return int(number)


def parse_amount(text: str, unit_nanousd: int = NANOUSD_PER_USD) -> int:
    """Return an amount in nano-USD, rounded half up: ``1.25``, ``$1,234.56``, ``-0.02`` or ``1e-7``.

    ``unit_nanousd`` is what 1 means, a dollar by default. An empty text is 0.
    """
    plain = text.strip().replace("$", "")
    number = _parse_number(plain) if plain else Decimal(0)
    if number is None:
        raise ValueError(
            f'"{shorten(text)}" is not an amount such as 1.25 or 1,234.56; export the file again'
        )
    amount = int(_EXACT.multiply(number, unit_nanousd).to_integral_value(ROUND_HALF_UP))
    if abs(amount) > LARGEST:
        raise ValueError(f'"{shorten(text)}" is more than a billion USD; look at the unit of the column')
    return amount


def parse_day(text: str) -> str:
    """Return the day in UTC of a date, of a moment, or of seconds since 1970."""
    plain = text.strip()
    if re.fullmatch(r"[0-9]{8,12}(?:\.0*)?", plain):
        seconds = int(plain.partition(".")[0])
        if seconds <= _LAST_SECOND:
            return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    if re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", plain):
        try:
            moment = datetime.fromisoformat(plain.replace(" UTC", "+00:00"))
            return (moment.astimezone(UTC) if moment.tzinfo else moment).date().isoformat()
        except (ValueError, OverflowError):
            pass
    raise ValueError(f'"{shorten(text)}" is not a date such as 2026-10-14; export the file again')


def shorten(text: str) -> str:
    """Return the beginning of a text, for a message."""
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _parse_number(text: str) -> Decimal | None:
    plain = text.replace(",", "") if _THOUSANDS.fullmatch(text) else text
    return Decimal(plain) if _NUMBER.fullmatch(plain) else None
