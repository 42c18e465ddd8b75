"""The time, as an argument: what decides by it can be run on a time of its own."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def monotonic_s(self) -> float:
        """Return seconds that never go back, from any beginning."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""


def monotonic_us(clock: Clock) -> int:
    """Return the whole µs of the clock's monotonic time."""
    return int(clock.monotonic_s() * 1_000_000)


class SystemClock:
    """The machine's clock."""

    def monotonic_s(self) -> float:
        """As ``time.monotonic``."""
        return time.monotonic()

    def now(self) -> datetime:
        """As ``datetime.now``."""
        return datetime.now(UTC)


SYSTEM_CLOCK = SystemClock()
