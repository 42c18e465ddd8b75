"""Deadlines that are believed only while the event loop was on time.

A timer that fires late says that this process was blocked or stopped, not that its peer is slow: the answer may lie in
the socket, unread. So time is counted in steps. A step that ends late does not count, but as many steps as a deadline
has may be late before it expires all the same: every wait stays bounded. Each step is at least one turn of the loop.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

STEPS = 10
LATE_S = 0.05
"""A timer that fires so much later than it was due is late."""


def is_late(due_s: float, now_s: float) -> bool:
    """Return whether a timer that was due at ``due_s``, and fires at ``now_s``, is late."""
    return now_s - due_s > LATE_S


class Deadline:
    """Calls ``expire`` once ``bound_s`` seconds of an event loop that was on time have passed."""

    def __init__(self, bound_s: float, expire: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._step_s = bound_s / STEPS
        self._expire = expire
        self._steps_left = STEPS
        self._late_steps_left = STEPS
        self._begin_step()

    @property
    def is_fair(self) -> bool:
        """Whether the peer gets, or had, the whole of its time: the process was not late all along."""
        return self._late_steps_left > 0

    def cancel(self) -> None:
        """Never expire. Cancelling twice is harmless."""
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
    """Raise TimeoutError where the block takes longer: ``asyncio.timeout`` with a ``Deadline``."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as timeout:
        deadline = Deadline(bound_s, lambda: timeout.reschedule(loop.time()))
        try:
            yield
        finally:
            deadline.cancel()


class MovableDeadline:
    """One deadline after another, by one timer: setting a later one costs nothing until the timer fires.

    Believed only while the event loop was on time: one that is noticed late is put off by ``GRACE_S``, as long as that
    is noticed late as well, but at most ``LATE_LOOKS`` times.
    """

    GRACE_S = 0.5
    LATE_LOOKS = 10

    def __init__(self, expire: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None
        self._due_s: float | None = None
        self._late_looks_left = self.LATE_LOOKS
        self.lagged = False
        """Whether it was noticed late, also at the last look."""

    def set(self, bound_s: float) -> None:
        """Expire in ``bound_s`` seconds, and not when it was said before."""
        self._late_looks_left = self.LATE_LOOKS
        self._aim(self._loop.time() + bound_s)

    def extend(self, more_s: float) -> None:
        """Expire ``more_s`` seconds later than it was said before."""
        if self._due_s is not None:
            self._due_s += more_s

    def clear(self) -> None:
        """Expire no more, until ``set`` is called."""
        self._due_s = None

    def close(self) -> None:
        """Give the timer up. Twice is harmless."""
        self._due_s = None
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _aim(self, due_s: float) -> None:
        self._due_s = due_s
        if self._timer and self._timer.when() > due_s:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(due_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self._due_s is None:
            return
        now_s = self._loop.time()
        if now_s < self._due_s:
            self._aim(self._due_s)
            return
        self.lagged = is_late(self._due_s, now_s)
        if self.lagged and self._late_looks_left:
            self._late_looks_left -= 1
            self._aim(now_s + self.GRACE_S)
        else:
            self._due_s = None
            self._expire()


class Patience:
    """How long the current task waits: a block ``with patience:`` raises TimeoutError once its time is over.

    One serves many waits, one after another. ``lagged`` says that this process was late for the last one, so that its
    peer may have been in time. ``close`` it in the end.
    """

    def __init__(self, bound_s: float) -> None:
        self._deadline = MovableDeadline(self._expire)
        self._task: asyncio.Task[object] | None = None
        self._is_over = self._is_cancelling = False
        self.give(bound_s)

    @property
    def lagged(self) -> bool:
        """Whether the process was late even when it looked again."""
        return self._deadline.lagged

    def give(self, bound_s: float) -> None:
        """Let the time be over ``bound_s`` seconds from now."""
        self._is_over = False
        self._deadline.set(bound_s)

    def extend(self, more_s: float) -> None:
        """Give ``more_s`` seconds more than there were."""
        self._deadline.extend(more_s)

    def close(self) -> None:
        """Let go of the timer."""
        self._deadline.close()

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        if self._is_over:  # While nothing was awaited; what is awaited now may be there already.
            self.give(MovableDeadline.GRACE_S)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        task, self._task = self._task, None
        if not self._is_cancelling:
            return
        self._is_cancelling = False
        if task and task.uncancel() <= 0 and kind is asyncio.CancelledError:
            raise TimeoutError

    def _expire(self) -> None:
        if self._task is None:
            self._is_over = True
        else:
            self._is_cancelling = True
            self._task.cancel()
