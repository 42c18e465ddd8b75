"""The open SQLite file of the ledger. Every step is one transaction with a timeout, and every fault is one error type.

A transaction takes some tens of microseconds, less than a change of threads, so it runs in the thread of the event
loop. No transaction stays open across an await. When the file is locked, the step is tried again while other calls
go on.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.runtime.folder_lock import locked
from addon.store.ledger.migrations import migrate
from addon.store.protocol import TIMEOUT_S, StoreUnavailable

type Step[T] = Callable[[sqlite3.Connection], T]

NEVER_WRITABLE = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.DataError)
"""The errors for a row that can never be written. ``write`` raises them unchanged."""

_OPEN_TIMEOUT_MS = 2000  # While opening, when no call waits.
_CHECKPOINT_PAGES = 4000  # 16 MB, the work of some three hundred calls.
# A transaction of another process takes less than a tenth of a millisecond, so the first tries block the event loop.
# Only when the lock stays do other calls of this process run between two tries. With four busy processes on two cores
# this gave a fifth more calls than turns of the event loop alone, and a median of 0.3 ms instead of 4 ms.
_TRIES_IN_PLACE = 8
_IN_PLACE_S = 0.0001
_RETRY_S = 0.0005
_MAX_RETRY_S = 0.1
_MIN_TURNS = 10
"""How many turns other tasks get, at least, before a locked file counts as unavailable.

Time also passes while this process is stopped, so the clock alone does not decide. In a process that runs, these turns
take at most ``TIMEOUT_S`` together."""

_REPLACED = "the file was removed or replaced; restart to record calls in the new one"


class LedgerFile:
    """The file ``path``, created with its folder when it is missing.

    It waits for the locks of other processes until ``disable_busy_timeout`` is called.

    It and its methods raise ``StoreUnavailable``.
    """

    def __init__(self, path: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self.path = path
        self._clock = clock
        self._waiting = 0
        with raising_unavailable(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # When several processes switch a new file to WAL at once, SQLite fails instead of waiting for the lock.
            with locked(path.parent):
                _create(path)
                self.connection = _open(path)
                self._identity = _identity(path)

    def disable_busy_timeout(self) -> None:
        """Let SQLite report a lock at once from now on. ``run`` then waits without blocking other calls."""
        self.connection.execute("PRAGMA busy_timeout = 0")

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    async def write[T](self, step: Step[T], timeout_s: float = TIMEOUT_S) -> T:
        """Run ``step`` in one transaction. Raises ``NEVER_WRITABLE`` too."""
        return await self.run(lambda: self.transact(step), timeout_s)

    async def run[T](self, work: Callable[[], T], timeout_s: float = TIMEOUT_S) -> T:
        """Run ``work`` and return its result. Try again while another process has the file locked."""
        deadline_s = self._clock.monotonic_s() + timeout_s
        turns = 0
        for tries in count(1):
            try:
                return work()
            except NEVER_WRITABLE:
                raise
            except (OSError, sqlite3.Error) as error:
                is_over = turns >= _MIN_TURNS and self._clock.monotonic_s() > deadline_s
                if is_over or not _is_locked(error):
                    raise StoreUnavailable(f"{self.path}: {_reason(error)}") from error
            if tries % _TRIES_IN_PLACE and not self._waiting:
                time.sleep(_IN_PLACE_S)  # noqa: ASYNC251  (shorter than a turn of a busy loop)
            else:
                turns += 1
                await self._wait()
        raise AssertionError("unreachable")

    async def _wait(self) -> None:
        # The lock stays. The more calls wait, the longer each one waits, so that they do not block each other too.
        self._waiting += 1
        try:
            await asyncio.sleep(min(_RETRY_S * self._waiting, _MAX_RETRY_S))
        finally:
            self._waiting -= 1

    def transact[T](self, step: Step[T]) -> T:
        """Run ``step`` in one transaction, now. Raises ``OSError`` and ``sqlite3.Error``."""
        if _identity(self.path) != self._identity:
            # A row that is written into a deleted file is lost.
            raise sqlite3.OperationalError(_REPLACED)
        with self.connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            return step(connection)


@contextmanager
def raising_unavailable(path: Path) -> Iterator[None]:
    """Raise ``StoreUnavailable`` for any error with the file or with a file next to it."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise StoreUnavailable(f"{path}: can't be opened: {_reason(error)}") from error


def _create(path: Path) -> None:
    """Create the file, readable by its owner only: a ledger shows who called which model.

    An existing file keeps its mode. SQLite gives the files next to it (-wal, -shm) the same mode.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_OPEN_TIMEOUT_MS / 1000, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        # A checkpoint waits for the disk, and all calls in flight wait with it, so checkpoints are rare.
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        migrate(connection)
        # The tables must be in the file itself, not only in its -wal file.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_locked(error: Exception) -> bool:
    # The last byte of an extended code is the plain code.
    return (
        isinstance(error, sqlite3.Error)
        and (getattr(error, "sqlite_errorcode", 0) & 0xFF) == sqlite3.SQLITE_BUSY
    )


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _reason(error: Exception) -> str:
    return (error.strerror or "").lower() if isinstance(error, OSError) else str(error)
