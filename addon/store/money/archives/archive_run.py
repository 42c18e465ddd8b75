"""One run of archiving: of all processes, only one archives a ledger at a time."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from addon.edits.recording import Record
from addon.store.money.archives.archived_ledger import ArchivedLedger, ArchiveRefused, Step
from addon.store.money.archives.archiving import MonthArchiver
from addon.store.money.audit.audit_spool import AuditSpool
from policies.retention import find_open_month

_TIMEOUT_S: Final = 2.0


def archive_months(
    ledger: ArchivedLedger, folder: Path, before: str, record: Record, spool: AuditSpool, now: datetime
) -> Iterator[Step]:
    """Archive each month before ``before`` in ``folder``, in steps. The process may die after any of them.

    ``record`` notes in ``spool``. Raises ``ArchiveRefused``, ``StoreUnavailable``, OSError and ``sqlite3.Error``.
    """
    if open_month := find_open_month(before, now):
        raise ArchiveRefused(
            f"{open_month} ended less than a day ago, or has not ended: archive the months before {open_month}"
        )
    with ledger.alone():
        # A change of a process that died is judged by what the ledger says now, not by what this run makes of it.
        spool.drain(ledger.place, _TIMEOUT_S)
        yield from ledger.build_sums(now)
        yield from MonthArchiver(ledger, folder, record, now).run(before)
