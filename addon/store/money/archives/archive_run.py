"""One run of archiving: of all processes, only one archives a ledger at a time."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from addon.edits.recording import Record
from addon.runtime.folder_lock import hold_lock
from addon.store.money.archives.archive_file import ArchiveRefused
from addon.store.money.archives.archive_removal import Step
from addon.store.money.archives.archiving import MonthArchiver
from addon.store.money.audit.audit_spool import AuditSpool
from addon.store.money.sqlite.file import LedgerFile
from addon.store.money.sqlite.place import SqlitePlace
from addon.store.money.sums.rollups import build_step, is_behind
from addon.store.money.sums.step_pace import StepPace
from policies.retention import find_open_month

_TIMEOUT_S: Final = 2.0


def archive_months(ledger: Path, folder: Path, before: str, record: Record, now: datetime) -> Iterator[Step]:
    """Archive each month before ``before`` in ``folder``, in steps. The process may die after any of them.

    Raises ``ArchiveRefused``, ``StoreUnavailable``, OSError and ``sqlite3.Error``.
    """
    if not ledger.exists():
        raise ArchiveRefused(f"there is no ledger yet in {ledger}")
    if open_month := find_open_month(before, now):
        raise ArchiveRefused(
            f"{open_month} ended less than a day ago, or has not ended: archive the months before {open_month}"
        )
    with archive_connection(ledger) as connection:
        # A change of a process that died is judged by what the ledger says now, not by what this run makes of it.
        AuditSpool(ledger).drain(SqlitePlace(ledger), _TIMEOUT_S)
        yield from _build_sums(connection, now)
        yield from MonthArchiver(connection, ledger, folder, record, now).run(before)


@contextmanager
def archive_connection(ledger: Path) -> Iterator[sqlite3.Connection]:
    """Give the connection of the only process that archives this ledger, or changes its archives."""
    with closing(LedgerFile(ledger)):
        pass  # It has brought the tables up to date.
    owners = ledger.with_name(f"{ledger.name}-owners")
    owners.mkdir(mode=0o700, exist_ok=True)
    try:
        with (
            hold_lock(owners / ".archive"),
            closing(
                sqlite3.connect(
                    ledger.absolute().as_uri(), timeout=_TIMEOUT_S, isolation_level=None, uri=True
                )
            ) as connection,
        ):
            yield connection
    except BlockingIOError:
        raise ArchiveRefused(f"another process archives {ledger} right now") from None


def _build_sums(connection: sqlite3.Connection, now: datetime) -> Iterator[Step]:
    """Build the sums that no gateway has built yet."""
    pace = StepPace()
    while is_behind(connection, now):
        with pace.step(connection):
            build_step(connection, now, pace.rows)
        yield Step()
        time.sleep(pace.rest_s)
