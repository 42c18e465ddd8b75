"""``KeyedSemaphores``: a semaphore for each key; waiters are served in order."""

import asyncio
from collections import deque
from collections.abc import Hashable


class FairSemaphore:
    """A semaphore of ``limit`` that serves waiters in their order. Each acquire needs one release."""

    __slots__ = ("_waiters", "in_use", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_use = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def is_unused(self) -> bool:
        """Whether no one holds it and no one waits."""
        return not self.in_use and not self._waiters

    def try_acquire(self) -> bool:
        """Acquire and return True, unless it is full or others wait."""
        if self.in_use >= self.limit or self._waiters:
            return False
        self.in_use += 1
        return True

    async def acquire(self) -> None:
        """Acquire as soon as all earlier waiters have acquired and one place is free."""
        if self.try_acquire():
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            else:
                self.release()  # It was acquired at the moment of the cancellation: pass it on.
            raise

    def release(self) -> None:
        """Release. The one that has waited longest acquires."""
        self.in_use -= 1
        while self._waiters and self.in_use < self.limit:
            waiter = self._waiters.popleft()
            self.in_use += 1
            # The ``acquire`` of a waiter that was cancelled at this moment releases again.
            if not waiter.done():
                waiter.set_result(None)


class KeyedSemaphores[Key: Hashable]:
    """A semaphore of ``limit`` for each key. It exists only while it is in use."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._semaphores: dict[Key, FairSemaphore] = {}

    def __len__(self) -> int:
        """Return how many keys are in use."""
        return len(self._semaphores)

    def in_use(self, key: Key) -> int:
        """Return how many hold the semaphore of ``key``."""
        semaphore = self._semaphores.get(key)
        return semaphore.in_use if semaphore else 0

    def try_acquire(self, key: Key) -> bool:
        """As ``FairSemaphore.try_acquire``."""
        return self._get(key).try_acquire()

    async def acquire(self, key: Key) -> None:
        """As ``FairSemaphore.acquire``."""
        try:
            await self._get(key).acquire()
        finally:
            self._forget_unused(key)

    def release(self, key: Key) -> None:
        """As ``FairSemaphore.release``."""
        self._semaphores[key].release()
        self._forget_unused(key)

    def _get(self, key: Key) -> FairSemaphore:
        semaphore = self._semaphores.get(key)
        if semaphore is None:
            semaphore = self._semaphores[key] = FairSemaphore(self._limit)
        return semaphore

    def _forget_unused(self, key: Key) -> None:
        semaphore = self._semaphores.get(key)
        if semaphore is not None and semaphore.is_unused:
            del self._semaphores[key]
