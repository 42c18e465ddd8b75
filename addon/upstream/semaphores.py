"""``KeyedSemaphores``: a semaphore for each key; waiters are served in order."""

import asyncio
from collections import deque
from collections.abc import Hashable


class KeyedSemaphores[Key: Hashable]:
    """A semaphore of ``limit`` for each key. Each acquire needs one release. Only keys in use take memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._in_use: dict[Key, int] = {}
        self._waiters: dict[Key, deque[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        """Return how many keys are in use."""
        return len(self._in_use.keys() | self._waiters.keys())

    @property
    def all_in_use(self) -> int:
        """How many hold a semaphore, of any key."""
        return sum(self._in_use.values())

    @property
    def waiting(self) -> int:
        """How many wait for one."""
        return sum(map(len, self._waiters.values()))

    def in_use(self, key: Key) -> int:
        """Return how many hold the semaphore of ``key``."""
        return self._in_use.get(key, 0)

    def try_acquire(self, key: Key) -> bool:
        """Acquire and return True, unless it is full or others wait."""
        in_use = self._in_use.get(key, 0)
        if in_use >= self._limit or key in self._waiters:
            return False
        self._in_use[key] = in_use + 1
        return True

    async def acquire(self, key: Key) -> None:
        """Acquire as soon as all earlier waiters have acquired and one place is free."""
        if self.try_acquire(key):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(key, deque()).append(waiter)
        try:
            await waiter
        except BaseException:
            if not self._forget(key, waiter):
                self.release(key)  # It was acquired at the moment of the cancellation: pass it on.
            raise

    def release(self, key: Key) -> None:
        """Release. The one that has waited longest acquires."""
        if in_use := self._in_use[key] - 1:
            self._in_use[key] = in_use
        else:
            del self._in_use[key]
        if key in self._waiters:
            self._serve_waiters(key)

    def _serve_waiters(self, key: Key) -> None:
        waiters = self._waiters[key]
        while waiters and (in_use := self._in_use.get(key, 0)) < self._limit:
            waiter = waiters.popleft()
            self._in_use[key] = in_use + 1
            # The ``acquire`` of a waiter that was cancelled at this moment releases again.
            if not waiter.done():
                waiter.set_result(None)
        if not waiters:
            del self._waiters[key]

    def _forget(self, key: Key, waiter: asyncio.Future[None]) -> bool:
        """Remove ``waiter``. Return False if it no longer waits."""
        waiters = self._waiters.get(key, ())
        if waiter not in waiters:
            return False
        self._waiters[key].remove(waiter)
        if not self._waiters[key]:
            del self._waiters[key]
        return True
