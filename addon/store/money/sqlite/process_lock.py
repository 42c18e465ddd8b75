"""The lock file of each process that places holds. The system releases the lock when the process dies."""

import fcntl
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from addon.runtime.atomic_files import write_atomically
from addon.runtime.folder_lock import is_locked, locked

_MACHINE_FILE = ".machine"


class ProcessLock:
    """This process as the owner of holds. Its file in ``folder`` is locked until ``close`` or death. Raises OSError.

    ``id`` names the process. ``machine_id`` is a random id of the folder: processes with another folder can't see
    these locks.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.id = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._folder = folder
        self.machine_id = ""
        # Another process would remove a file that is not locked yet as one of a dead process.
        with locked(folder):
            _remove_dead(_lock_files(folder))
            self.machine_id = _machine_id(folder)
            self._file: int | None = os.open(folder / self.id, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def is_alive(self, owner_id: str) -> bool:
        """Return whether the process ``owner_id`` of this machine is alive. Raises OSError."""
        return owner_id == self.id or is_locked(self._folder / owner_id)

    def find_alive(self) -> frozenset[str]:
        """Return the living processes of this machine, this one included. Raises OSError."""
        return find_running(self._folder)

    def find_dead(self) -> frozenset[str]:
        """Return the processes of this machine that ended without ``close``. Raises OSError."""
        return frozenset(file.name for file in _lock_files(self._folder) if not self.is_alive(file.name))

    def forget_dead(self, owner_ids: Iterable[str]) -> None:
        """Remove the files of dead processes whose holds are settled. Raises OSError."""
        with locked(self._folder):
            _remove_dead(self._folder / owner_id for owner_id in owner_ids)

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


def _machine_id(folder: Path) -> str:
    file = folder / _MACHINE_FILE
    if not file.exists():
        write_atomically(file, secrets.token_hex(8))
    return file.read_text(encoding="ascii")


def _remove_dead(files: Iterable[Path]) -> None:
    for file in files:
        if not is_locked(file):
            file.unlink(missing_ok=True)
