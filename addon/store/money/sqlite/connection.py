"""The connection to the ledger's SQLite file: how it is opened, and which of its errors are which."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from addon.store.money.sqlite.copies import copy_before_migration
from addon.store.money.sqlite.migrations import migrate
from addon.store.protocol import StoreUnavailable

NEVER_WRITABLE = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.DataError)
"""The errors for a row that can never be written. ``LedgerFile`` raises them unchanged."""

_OPEN_TIMEOUT_MS = 2000  # While opening, when no call waits.
_CHECKPOINT_PAGES = 4000  # 16 MB, the work of some three hundred calls.


def open_connection(path: Path) -> sqlite3.Connection:
    """Open the file, created when it is missing, and bring its tables up to date. Raises OSError, ``sqlite3.Error``."""
    _create(path)
    connection = sqlite3.connect(path, timeout=_OPEN_TIMEOUT_MS / 1000, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        # A checkpoint waits for the disk, and all calls in flight wait with it, so checkpoints are rare.
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        copy_before_migration(connection, path)
        migrate(connection)
        # The tables must be in the file itself, not only in its -wal file.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def raising_unavailable(path: Path) -> Iterator[None]:
    """Raise ``StoreUnavailable`` for any error with the file or with a file next to it."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise StoreUnavailable(f"{path}: can't be opened: {_reason(error)}") from error


def make_unavailable(path: Path, error: Exception) -> StoreUnavailable:
    """Return the error for a file that can't be used now."""
    return StoreUnavailable(f"{path}: {_reason(error)}")


def is_locked(error: Exception) -> bool:
    """Return whether another process has the file locked."""
    # The last byte of an extended code is the plain code.
    return (
        isinstance(error, sqlite3.Error)
        and (getattr(error, "sqlite_errorcode", 0) & 0xFF) == sqlite3.SQLITE_BUSY
    )


def _create(path: Path) -> None:
    """Create the file, readable by its owner only: a ledger shows who called which model.

    An existing file keeps its mode. SQLite gives the files next to it (-wal, -shm) the same mode. A symbolic link is
    followed here: with O_EXCL, one to a missing file counts as a file, which SQLite would then create for everyone.
    """
    try:
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return


def _reason(error: Exception) -> str:
    return (error.strerror or "").lower() if isinstance(error, OSError) else str(error)
