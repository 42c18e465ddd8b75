"""Whole copies of the ledger's file, made while other processes write to it. Source: docs/ledger.md, "Backups"."""

import errno
import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from addon.runtime.atomic_files import sync_path
from addon.store.money.sqlite.migrations import find_pending

log = logging.getLogger("tollgate.store")

KEPT_COPIES: Final = 3
"""How many copies from before earlier changes of the tables are kept."""

_PAGES: Final = 4096
"""How many pages are copied at once, 16 MB. A signal takes effect between two steps."""
_STALLED_S: Final = 10.0
"""A copy that a lock of another process stops for so long fails."""


class CopyFailed(sqlite3.OperationalError):
    """The ledger could not be copied before a change of its tables, so nothing was changed."""


def partial_name(target: Path) -> Path:
    """Return the name under which a file is written until it is whole."""
    return target.with_name(f".{target.name}.partial")


@contextmanager
def private_file(target: Path) -> Iterator[Path]:
    """Give an empty file next to ``target``, which only its owner and one process may use. Remove it at the end.

    It has a fixed name, so the file of a killed process is used again. Raises OSError, ``BlockingIOError`` while
    another process has it.
    """
    partial = partial_name(target)
    descriptor = os.open(partial, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(descriptor)
        if found.st_ino != os.stat(partial).st_ino:
            raise BlockingIOError(f"{partial} is used by another process")
        if found.st_uid != os.geteuid() or found.st_nlink != 1:
            # In a folder that others may write, someone may have made the file to read what comes into it.
            raise PermissionError(errno.EPERM, "belongs to someone else; remove it", str(partial))
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
        try:
            yield partial
        finally:
            for name in (partial, *_files_next_to(partial)):
                name.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def copy_database(source: Path, target: Path) -> None:
    """Copy a database as it is at one moment into the empty file ``target``, and sync that. Writers do not wait.

    The copy is one file, without the ``-wal`` of the source. Raises OSError, ``sqlite3.Error``.
    """
    with closing(open_read_only(source)) as original:
        # A reader's transaction: all steps see the same moment.
        original.execute("BEGIN")
        original.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        with closing(sqlite3.connect(target, isolation_level=None)) as copy:
            original.backup(copy, pages=_PAGES, progress=_Progress())
            copy.execute("PRAGMA journal_mode = DELETE")
    sync_path(target)


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open an existing database, which this connection can't change. Raises ``sqlite3.Error``."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=2, isolation_level=None)


def copy_before_migration(connection: sqlite3.Connection, path: Path) -> None:
    """Copy the ledger if it has rows and its tables are about to change. Keep ``KEPT_COPIES`` such copies.

    The caller holds the lock of the folder. Raises ``CopyFailed`` and ``sqlite3.Error``.
    """
    pending = find_pending(connection)
    if not pending or _has_no_rows(connection):
        return
    target = path.with_name(f"{path.name}.before-{pending[0]}")
    try:
        with private_file(target) as partial:
            copy_database(path, partial)
            partial.replace(target)
        sync_path(target.parent)
    except (OSError, sqlite3.Error) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else str(error)
        raise CopyFailed(
            f"this version changes its tables, but the copy {target.name} can't be made first: {reason};"
            " nothing was changed"
        ) from error
    log.info(
        "this version changes the tables of the ledger; it was copied to %s first",
        target,
        extra={"event": "ledger copied", "file": str(target)},
    )
    _remove_older_copies(path)


class _Progress:
    """Notes whether a copy goes on. Raises ``sqlite3.OperationalError`` when it stalls."""

    def __init__(self) -> None:
        self._moved_at_s = time.monotonic()
        self._remaining: int | None = None

    def __call__(self, _status: int, remaining: int, _total: int) -> None:
        now_s = time.monotonic()
        if remaining != self._remaining:
            self._moved_at_s, self._remaining = now_s, remaining
        elif now_s - self._moved_at_s > _STALLED_S:
            raise sqlite3.OperationalError("database is locked")


def _has_no_rows(connection: sqlite3.Connection) -> bool:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    wanted = tables & {"usage", "wallet_entries", "audit", "archives"}
    return not any(connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in wanted)  # noqa: S608


def _remove_older_copies(path: Path) -> None:
    """Remove all copies from before migrations but the newest. A copy that can't be removed stays."""
    prefix = f"{path.name}.before-"
    with suppress(OSError):
        copies = [file for file in path.parent.iterdir() if file.name.startswith(prefix)]
        for old in sorted(copies, key=lambda file: file.stat().st_mtime_ns, reverse=True)[KEPT_COPIES:]:
            old.unlink()


def _files_next_to(path: Path) -> list[Path]:
    """Return the paths of the files that SQLite may make next to a database."""
    return [path.with_name(f"{path.name}{suffix}") for suffix in ("-wal", "-shm", "-journal")]
