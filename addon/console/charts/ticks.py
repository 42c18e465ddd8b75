"""Where the axes of a chart have their ticks. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import ceil, floor, isfinite, log10
from typing import Final

_STEPS: Final = (
    *(timedelta(minutes=minutes) for minutes in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=hours) for hours in (1, 2, 3, 6, 12)),
    *(timedelta(days=days) for days in (1, 2, 7, 14, 28, 91, 182, 364)),
)
NO_TICKS: Final = (0, 1)
"""The ticks of a chart without amounts. The 1 is no amount."""

_EPOCH: Final = datetime(2001, 1, 1, tzinfo=UTC)
"""A Monday, so that weeks begin as people count them."""


def find_ticks(highest: float, count: int = 4) -> Sequence[float]:
    """Return round numbers from 0 up to at least ``highest``: some ``count`` of them after the 0."""
    if not isfinite(highest) or highest <= 0:
        return NO_TICKS
    rough = highest / count
    unit = 10 ** floor(log10(rough))
    step = next(one * unit for one in (1, 2, 2.5, 5, 10) if one * unit >= rough * 0.999_999)
    return [place * step for place in range(ceil(highest / step * 0.999_999) + 1)]


def find_time_ticks(begin: datetime, end: datetime, count: int = 12) -> Sequence[tuple[datetime, str]]:
    """Return at most ``count`` + 1 round times from ``begin`` until ``end``, each with a short label."""
    length = end - begin
    step = next((one for one in _STEPS if length <= one * count), length / count)
    first = (_EPOCH - begin) % step
    ticks = []
    for place in range(count + 1):
        if first + place * step > length:
            break
        moment = begin + first + place * step
        ticks.append((moment, _label(moment, step)))
    return ticks


def _label(moment: datetime, step: timedelta) -> str:
    if step > timedelta(days=28):
        return f"{moment:%b %Y}"
    if step >= timedelta(days=1) or (moment.hour, moment.minute) == (0, 0):
        return f"{moment:%b} {moment.day}"
    return f"{moment:%H:%M}"
