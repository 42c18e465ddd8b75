"""A work that one process of all with a SQLite file does: it holds a lock, which the system releases when it dies."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from addon.store.money.sqlite.connection import raising_unavailable


class FileLead:
    """The ``Lead`` by the lock of ``file``. Its folder exists."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock: int | None = None

    def take(self) -> bool:
        if self._lock is None:
            with raising_unavailable(self._file):
                self._try()
        return self.is_held()

    def is_held(self) -> bool:
        return self._lock is not None

    def end(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _try(self) -> None:
        descriptor = os.open(self._file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._lock = descriptor
            return
        os.close(descriptor)
