"""``OperatorThread``: a thread for work that runs operators' own policies, apart from the threads of other pages.

Nothing can end a policy that hangs. So the thread is left to it, and does not keep the process from ending.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from time import monotonic
from typing import Final

LIMIT_S: Final = 5.0
"""How long a piece of work may take, with its wait for an earlier one."""


class StuckError(Exception):
    """The work, or an earlier one, did not end within ``LIMIT_S``."""


class OperatorThread:
    """At most one thread, which does one piece of work after another."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._free = asyncio.Lock()
        self._stuck_from_s = 0.0

    async def run[T](self, work: Callable[[], T]) -> T:
        """Return the result of ``work``. Raises what it raises, and StuckError."""
        if self._free.locked() and monotonic() >= self._stuck_from_s:
            raise StuckError
        try:
            async with asyncio.timeout(self._limit_s):
                await self._free.acquire()
                self._stuck_from_s = monotonic() + self._limit_s
                return await asyncio.wrap_future(self._start(work))
        except TimeoutError:
            raise StuckError from None

    def _start[T](self, work: Callable[[], T]) -> Future[T]:
        loop, done = asyncio.get_running_loop(), Future[T]()
        done.set_running_or_notify_cancel()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001  (the page reports it)
                done.set_exception(error)
            with suppress(RuntimeError):  # The loop may have ended.
                loop.call_soon_threadsafe(self._free.release)

        Thread(target=run, name="console-policies", daemon=True).start()
        return done
