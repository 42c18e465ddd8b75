"""``Reader``: the threads in which pages are read and made, away from the event loop of the calls.

Each page has one read-only view of the ledger. SQLite works without the lock of the interpreter, so calls go on.
"""

import asyncio
import sqlite3
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock
from time import monotonic
from typing import Final

from addon.console.operator_thread import OperatorThread
from addon.store.ledger.report import open_report

MAX_WAITING: Final = 16
"""How many pages may be in work or wait for a thread."""

THREADS: Final = 2
"""How many pages are made at the same time: a slow one does not delay all others."""

TIMEOUT_S: Final = 10.0
"""How long the statements of one page may take together."""

_SWITCH_S: Final = 0.0005
"""How long the thread of a page keeps the interpreter's lock while a call waits for it."""

_STEPS: Final = 10_000
"""How many steps SQLite takes between two looks at the time: about a millisecond."""


class BusyError(Exception):
    """Too many pages wait already."""


class SlowError(Exception):
    """A page took longer than ``TIMEOUT_S``."""


class Reader:
    """Threads with the ledger at ``database``, and one more for pages that run operators' own policies."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="console")
        self._policies = OperatorThread()
        self._waiting = 0
        self._is_closed = Event()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Count a page as in work within the context. Raises BusyError."""
        if self._waiting >= MAX_WAITING:
            raise BusyError
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def read[T](self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` in a thread, and return its result.

        Call it within a ``turn``. Raises SlowError, OSError and ``sqlite3.Error``.
        """
        is_left = Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, work, is_left)
        finally:
            is_left.set()

    async def read_with_policies[T](self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do as ``read``, for work that runs operators' own policies. It may see several moments of the ledger.

        Raises StuckError, too.
        """
        is_left = Event()

        def read(ledger: sqlite3.Connection) -> T:
            # A policy that hangs must not hold a view of the ledger, which would let its WAL file grow.
            ledger.execute("ROLLBACK")
            return work(ledger)

        try:
            return await self._policies.run(lambda: self._run(read, is_left))
        finally:
            is_left.set()

    def close(self) -> None:
        """Begin no more work, and end the statement that runs."""
        self._is_closed.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run[T](self, work: Callable[[sqlite3.Connection], T], is_left: Event) -> T:
        """Run ``work``. Its statements end when they take too long, when the client has left, and at ``close``."""
        end_s = monotonic() + TIMEOUT_S
        with _SWITCH_INTERVAL.shortened(), open_report(self._database) as ledger:
            ledger.set_progress_handler(
                lambda: is_left.is_set() or self._is_closed.is_set() or monotonic() > end_s, _STEPS
            )
            try:
                return work(ledger)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                    raise SlowError from None
                raise


class _SwitchInterval:
    """The time after which threads of this process hand over the interpreter's lock. It is short while pages are made.

    The event loop waits for the lock after each of its system calls. With Python's usual 5 ms, a page of 50 ms would
    delay the calls next to it by several times 5 ms each.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._pages = 0
        self._usual_s = 0.0

    @contextmanager
    def shortened(self) -> Iterator[None]:
        """Shorten the interval within the context.

        The interval belongs to the process. So the first of several pages shortens it, and the last one restores it.
        """
        with self._lock:
            if not self._pages:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(_SWITCH_S)
            self._pages += 1
        try:
            yield
        finally:
            with self._lock:
                self._pages -= 1
                if not self._pages:
                    sys.setswitchinterval(self._usual_s)


_SWITCH_INTERVAL: Final = _SwitchInterval()
