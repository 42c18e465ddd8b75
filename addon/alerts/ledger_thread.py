"""The ledger as alerts use it: a connection in a thread of its own, for the one process that has the lock.

The system releases the lock when the process dies, so there is no lease to renew and none to wait for.
"""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Concatenate


class LedgerThread:
    """The file ``database``. It exists. All methods raise OSError and ``sqlite3.Error``."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="alerts")
        self._lock: int | None = None
        self._connection: sqlite3.Connection | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this process finds and sends alerts for all processes with this ledger."""
        return self._lock is not None

    async def become_leader(self) -> bool:
        """Become the leader if there is none. Return whether this process is it."""
        if self._lock is None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._try_lock)
        return self._lock is not None

    async def run[**P, T](
        self, step: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run ``step`` on the ledger, in the thread."""
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, lambda: step(self._open(), *args, **kwargs)
        )

    async def call[T](self, work: Callable[[], T]) -> T:
        """Run slow work that needs no ledger, in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def close(self) -> None:
        """Let another process lead."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(self._database, timeout=1, isolation_level=None)
            self._connection.execute("PRAGMA synchronous = NORMAL")
        return self._connection

    def _try_lock(self) -> None:
        file = self._database.with_name(f"{self._database.name}-owners") / ".alerts"
        descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._lock = descriptor
            return
        os.close(descriptor)

    def _close(self) -> None:
        if self._connection:
            self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
