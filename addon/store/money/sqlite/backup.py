"""Backups of the ledger: ``tollgate ledger backup`` and ``restore``. Source: docs/ledger.md, "Backups"."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final

from addon.runtime.atomic_files import sync_path
from addon.runtime.folder_lock import locked
from addon.store.money.reports.report import count_rows
from addon.store.money.sqlite.copies import copy_database, open_read_only, private_file
from addon.store.money.sqlite.migrations import find_pending, migrate
from addon.store.money.sqlite.process_lock import find_running
from addon.store.money.verify.verify import verify

_HEADER: Final = b"SQLite format 3\0"
"""The first bytes of every database. Source: sqlite.org/fileformat.html."""


class BackupRefused(Exception):  # noqa: N818  (the state of a file, no fault of the program)
    """The ledger can't be copied or replaced now. The message is one line for operators."""


@dataclass(frozen=True, slots=True)
class CopyCheck:
    """How many rows a copy has, by kind, and each discrepancy. ``counts`` is None for tables of an older version."""

    counts: dict[str, int] | None
    discrepancies: Sequence[str]


@dataclass(frozen=True, slots=True)
class Restored:
    """The check of the restored ledger, and where the replaced one is, if there was one."""

    check: CopyCheck
    replaced: Path | None


def back_up(ledger: Path, target: Path, *, overwrite: bool) -> CopyCheck:
    """Copy the ledger to ``target``, also while gateways write to it, and check the copy.

    ``target`` appears only when it is whole, readable by its owner only. Raises ``BackupRefused``, OSError and
    ``sqlite3.Error``.
    """
    if not ledger.exists():
        raise BackupRefused(f"there is no ledger yet in {ledger}")
    if target.resolve() == ledger.resolve():
        raise BackupRefused(f"{target} is the ledger itself")
    if not target.parent.is_dir():
        raise BackupRefused(f"{target.parent}: no such folder")
    if target.exists() and not target.is_file():
        # Such as /dev/null, in whose place --force would put the copy.
        raise BackupRefused(f"{target}: is no regular file")
    if target.exists() and not overwrite:
        raise BackupRefused(f"{target} exists; --force replaces it")
    with private_file(target) as partial:
        copy_database(ledger, partial)
        check = _check(partial)
        if overwrite:
            partial.replace(target)
        else:
            _link(partial, target)
    sync_path(target.parent)
    return check


def restore(ledger: Path, source: Path, *, despite_discrepancies: bool) -> Restored:
    """Put the backup ``source`` in the place of the ledger, which is kept under another name.

    A backup of an older version is migrated. Raises ``BackupRefused``, OSError and ``sqlite3.Error``.
    """
    if not source.exists():
        raise BackupRefused(f"{source}: no such file")
    if not source.is_file():
        raise BackupRefused(f"{source}: is no regular file")
    if source.resolve() == ledger.resolve():
        raise BackupRefused(f"{source} is the ledger itself")
    ledger.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with private_file(ledger) as partial:
        copy_database(source, partial)
        _require_ledger(partial, source)
        check = _prepare(partial)
        if check.discrepancies and not despite_discrepancies:
            first, more = check.discrepancies[0], len(check.discrepancies) - 1
            raise BackupRefused(
                f"{source}: {first}{f', and {more} more' if more else ''}; --force restores it"
            )
        # No gateway opens the ledger while this lock is held.
        with locked(ledger.parent):
            _require_unused(ledger)
            replaced = _keep_replaced(ledger) if ledger.exists() else None
            partial.replace(ledger)
        sync_path(ledger.parent)
    return Restored(check, replaced)


def _check(path: Path) -> CopyCheck:
    """Check the copy. Raises ``BackupRefused`` when the file is damaged."""
    with closing(open_read_only(path)) as connection:
        _require_whole(connection)
        if find_pending(connection):
            return CopyCheck(None, ())
        return CopyCheck(count_rows(connection), verify(connection))


def _require_whole(connection: sqlite3.Connection) -> None:
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise BackupRefused(f"the file is damaged: {found}")


def _require_ledger(path: Path, source: Path) -> None:
    with closing(open_read_only(path)) as connection:
        found = connection.execute(
            "SELECT count(*) FROM sqlite_schema WHERE name IN ('usage', '_sqlite_migrations')"
        )
        if found.fetchone() != (2,):
            raise BackupRefused(f"{source} is no ledger of Tollgate")


def _prepare(path: Path) -> CopyCheck:
    """Bring the tables up to date and check them."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        _require_whole(connection)
        migrate(connection)
        check = CopyCheck(count_rows(connection), verify(connection))
    sync_path(path)
    return check


def _require_unused(ledger: Path) -> None:
    """Raise ``BackupRefused`` while a gateway, or any other program, has the ledger open."""
    owners = find_running(ledger.with_name(f"{ledger.name}-owners"))
    if owners:
        processes = ", ".join(sorted(owner.partition("-")[0] for owner in owners))
        raise BackupRefused(f"a gateway serves on {ledger} (process {processes}); stop it first")


def _keep_replaced(ledger: Path) -> Path:
    """Give the ledger a second name, and return it. Afterwards there is no ``-wal`` that a new file could pick up."""
    _end_wal(ledger)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    for number in count(1):
        kept = ledger.with_name(f"{ledger.name}.replaced-{stamp}{f'-{number}' if number > 1 else ''}")
        with suppress(FileExistsError):
            # A second name, not another one: the ledger has a file at each moment.
            os.link(ledger, kept)
            break
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            ledger.with_name(f"{ledger.name}{suffix}").rename(f"{kept}{suffix}")
    return kept


def _end_wal(ledger: Path) -> None:
    """Write the ``-wal`` into the ledger. A damaged ledger stays as it is. Raises ``BackupRefused`` if it is open."""
    with ledger.open("rb") as stream:
        if stream.read(len(_HEADER)) != _HEADER:
            return
    try:
        with closing(sqlite3.connect(ledger, timeout=2, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    except sqlite3.OperationalError as error:
        if (error.sqlite_errorcode & 0xFF) == sqlite3.SQLITE_BUSY:
            raise BackupRefused(f"another program has {ledger} open; end it first") from None
    except sqlite3.DatabaseError:
        return


def _link(partial: Path, target: Path) -> None:
    """Name the file ``target``, unless there is such a file by now."""
    try:
        os.link(partial, target)
    except FileExistsError:
        raise BackupRefused(f"{target} exists; --force replaces it") from None
