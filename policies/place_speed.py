"""How fast a place is of late: the median time to the first byte, a failed attempt counting as one without end. Pure.

A place that nobody called for a while is tried by one call, and is then measured anew: what was before says nothing of
the present. So the first call after ``EXPLORE_S`` finds a place that recovered. Times are in seconds of one clock.
"""

import math
from dataclasses import dataclass
from statistics import median_low
from typing import Final

EXPLORE_S: Final = 10.0
"""How long a place may stay without a call before one tries it."""
MAX_AGE_S: Final = 300.0
"""How long an attempt counts."""
MAX_ATTEMPTS: Final = 32
"""How many of the last attempts count."""


@dataclass(frozen=True, slots=True)
class PlaceSpeed:
    """The last attempts at one place: when each ended, and its time to the first byte, infinite for a failure."""

    attempts: tuple[tuple[float, float], ...] = ()
    tried_s: float = -math.inf

    def measure_s(self, now_s: float) -> float:
        """Return the median time to the first byte, infinite while nothing is known: then one call tries the place."""
        times = [first_byte_s for ended_s, first_byte_s in self.attempts if now_s - ended_s <= MAX_AGE_S]
        return median_low(times) if times else math.inf

    def is_due(self, now_s: float) -> bool:
        """Return whether the place is to be tried by one call."""
        return now_s - self.tried_s >= EXPLORE_S


def after_choice(speed: PlaceSpeed, now_s: float) -> PlaceSpeed:
    """Return the speed of a place that a call is sent to."""
    return PlaceSpeed(speed.attempts, now_s)


def after_attempt(speed: PlaceSpeed, now_s: float, first_byte_s: float) -> PlaceSpeed:
    """Return the speed of a place after an attempt that ended ``now_s``."""
    is_stale = not speed.attempts or now_s - speed.attempts[-1][0] >= EXPLORE_S
    kept = () if is_stale else speed.attempts[1 - MAX_ATTEMPTS :]
    return PlaceSpeed((*kept, (now_s, first_byte_s)), max(speed.tried_s, now_s))
