"""When a budget is used up, if its use goes on as lately.

The rate is that of the last seven days. A scope whose first call ever is younger has the rate since that call. With
less than an hour of calls there is no rate: a few calls say nothing about a day. Source: docs/console.md.
"""

from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from policies.limits import EVER, period_end

WINDOW: Final = timedelta(days=7)
"""The time whose use is the rate."""
SHORTEST: Final = timedelta(hours=1)
"""The shortest time whose use is a rate."""
LONGEST: Final = timedelta(days=3_650)
"""A budget that lasts longer than this has no end worth naming."""

Outlook = Literal["used_up", "ends", "resets_first", "lasts", "unused", "too_early"]
"""How a budget goes on.

| outlook | when |
|---|---|
| ``used_up`` | nothing is left now |
| ``ends`` | it ends at ``ends_at`` |
| ``resets_first`` | its period ends before it is used up |
| ``lasts`` | it lasts for more than ten years |
| ``unused`` | nothing of it was used in the last seven days |
| ``too_early`` | its first call is less than an hour old |
"""


class Use(Struct, frozen=True):
    """How much a scope used since ``since`` (UTC): the first call ever, or the beginning of the window."""

    amount: int
    since: datetime


class Forecast(Struct, frozen=True):
    """The outlook of a budget. ``ends_at`` is UTC, and None unless the budget ends."""

    outlook: Outlook
    ends_at: datetime | None = None


def forecast(left: int, use: Use | None, period: str, now: datetime) -> Forecast:
    """Return the outlook of a budget of which ``left`` is left at ``now`` (UTC), in the unit of ``use``.

    ``period`` is as in ``policies.limits``. ``use`` is None without calls in the window.
    """
    if left <= 0:
        return Forecast("used_up")
    if use is None or use.amount <= 0:
        return Forecast("unused")
    observed = now - max(use.since, now - WINDOW)
    if observed < SHORTEST:
        return Forecast("too_early")
    lasts_us = left * (observed // _MICROSECOND) // use.amount
    if period != EVER:
        until_reset = datetime.fromisoformat(period_end(period)).replace(tzinfo=UTC) - now
        if lasts_us >= until_reset // _MICROSECOND:
            return Forecast("resets_first")
    if lasts_us > LONGEST // _MICROSECOND:
        return Forecast("lasts")
    return Forecast("ends", now + timedelta(microseconds=lasts_us))


_MICROSECOND: Final = timedelta(microseconds=1)
