"""Deadlines that do not count time in which this process was blocked or stopped.

A timer that fires late means that the process was blocked or stopped, not that the peer is slow. The answer may be in
the socket, unread. So a deadline counts its time in steps, and a step that ends late does not count. Only as many late
steps as the deadline has steps are left out, so every wait is bounded. Each step is at least one turn of the loop.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from addon.runtime.clock import time_of

STEPS = 10
LATE_S = 0.05
"""A timer is late if it fires more than this after it was due."""


def is_late(due_s: float, now_s: float) -> bool:
    """Return whether a timer that was due at ``due_s`` and fires at ``now_s`` is late."""
    return now_s - due_s > LATE_S


class Deadline:
    """A deadline that calls ``expire`` after ``bound_s`` seconds in which the event loop was on time."""

    def __init__(self, bound_s: float, expire: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._step_s = bound_s / STEPS
        self._expire = expire
        self._steps_left = STEPS
        self._late_steps_left = STEPS
        self._begin_step()

    @property
    def has_given_full_time(self) -> bool:
        """Whether the peer had its full time. It did not if this process was late in too many steps."""
        return self._late_steps_left > 0

    def cancel(self) -> None:
        """Never expire. May be called twice."""
        self._timer.cancel()

    def _begin_step(self) -> None:
        self._due_s = self._loop.time() + self._step_s
        self._timer = self._loop.call_at(self._due_s, self._end_step)

    def _end_step(self) -> None:
        if self._late_steps_left and is_late(self._due_s, self._loop.time()):
            self._late_steps_left -= 1
        else:
            self._steps_left -= 1
        if self._steps_left:
            self._begin_step()
        else:
            self._expire()


@asynccontextmanager
async def within(bound_s: float) -> AsyncIterator[None]:
    """Raise TimeoutError if the block takes longer. Like ``asyncio.timeout``, but with a ``Deadline``."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as timeout:
        deadline = Deadline(bound_s, lambda: timeout.reschedule(loop.time()))
        try:
            yield
        finally:
            deadline.cancel()


class MovableDeadline:
    """One deadline after another with a single timer. To set a later one costs nothing until the timer fires.

    A deadline that is noticed late is postponed by ``GRACE_S``, again and again while that is noticed late as well, but
    at most ``LATE_LOOKS`` times.
    """

    GRACE_S = 0.5
    LATE_LOOKS = 10

    def __init__(self, expire: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._time_s = time_of(self._loop)
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_s = math.inf
        self._due_s = math.inf
        self._late_looks_left = self.LATE_LOOKS
        self.has_expired = False
        """Whether it expired after the last ``set``."""
        self.lagged = False
        """Whether the last deadline that expired was noticed late, even after it was postponed."""

    def set(self, bound_s: float) -> None:
        """Expire in ``bound_s`` seconds, in place of the time before."""
        self.has_expired = False
        self._late_looks_left = self.LATE_LOOKS
        self._due_s = due_s = self._time_s() + bound_s
        if due_s < self._timer_due_s:
            self._start_timer()

    def extend(self, more_s: float) -> None:
        """Expire ``more_s`` seconds later."""
        self._due_s += more_s

    def clear(self) -> None:
        """Do not expire before ``set`` is called again."""
        self._due_s = math.inf

    def close(self) -> None:
        """Cancel the timer. May be called twice."""
        self._due_s = self._timer_due_s = math.inf
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _start_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer_due_s = self._due_s
        self._timer = self._loop.call_at(self._due_s, self._fire)

    def _fire(self) -> None:
        self._timer, self._timer_due_s = None, math.inf
        if self._due_s == math.inf:
            return
        now_s = self._time_s()
        if now_s < self._due_s:
            self._start_timer()
            return
        self.lagged = is_late(self._due_s, now_s)
        if self.lagged and self._late_looks_left:
            self._late_looks_left -= 1
            self._due_s = now_s + self.GRACE_S
            self._start_timer()
        else:
            self._due_s, self.has_expired = math.inf, True
            self._expire()
