"""The clock, passed as an argument so that a test can use its own time."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio


class Clock(Protocol):
    """A monotonic time and a time of day."""

    def monotonic_s(self) -> float:
        """Return seconds since an arbitrary start. They never decrease."""

    def now(self) -> datetime:
        """Return the date and the time, in UTC."""


def monotonic_us(clock: Clock) -> int:
    """Return the clock's monotonic time in whole µs."""
    return int(clock.monotonic_s() * 1_000_000)


class SystemClock:
    """The machine's clock. Both methods are functions in C: each call of the gateway asks the time often."""

    monotonic_s = staticmethod(time.monotonic)
    now = staticmethod(partial(datetime.now, UTC))


SYSTEM_CLOCK = SystemClock()


def time_of(loop: "asyncio.AbstractEventLoop") -> Callable[[], float]:
    """Return ``loop.time``. asyncio's own only asks ``time.monotonic``, which is a function in C."""
    import asyncio  # It takes long to import, and commands without an event loop need a clock too.

    is_asyncios = getattr(type(loop), "time", None) is asyncio.BaseEventLoop.time
    return time.monotonic if is_asyncios else loop.time
