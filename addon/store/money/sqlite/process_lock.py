"""The lock file of each process that places holds. The system releases the lock when the process dies."""

import fcntl
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from addon.runtime.folder_lock import is_locked, locked


class ProcessLock:
    """This process as the owner of holds. Its file in ``folder`` is locked until ``close`` or death. Raises OSError.

    ``id`` names the process.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.id = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._folder = folder
        # Another process would remove a file that is not locked yet as one of a dead process.
        with locked(folder):
            _remove_dead(_lock_files(folder))
            self._file: int | None = os.open(folder / self.id, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def is_alive(self, owner_id: str) -> bool:
        """Return whether the process ``owner_id`` of this machine is alive. Raises OSError."""
        return owner_id == self.id or is_locked(self._folder / owner_id)

    def close(self) -> None:
        """Release the lock. Another process settles what this one still holds."""
        if self._file is not None:
            (self._folder / self.id).unlink(missing_ok=True)
            os.close(self._file)
            self._file = None


def find_running(folder: Path) -> frozenset[str]:
    """Return the owners of holds that are alive now. Raises OSError."""
    if not folder.exists():
        return frozenset()
    return frozenset(file.name for file in _lock_files(folder) if is_locked(file))


def _lock_files(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if not file.name.startswith(".")]


def _remove_dead(files: Iterable[Path]) -> None:
    for file in files:
        if not is_locked(file):
            file.unlink(missing_ok=True)
