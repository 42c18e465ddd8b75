"""``python -m addon.gateway.archive_process``: archives months of one ledger for its gateway, and ends.

The order arrives on standard input, and reports leave on standard output. The process may be killed at any point.
"""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from addon.edits.recording import ChangeRecord, Recording
from addon.gateway.archive_order import ArchiveOrder, ArchiveReport
from addon.runtime.process_options import end_with_parent, give_way
from addon.settings.errors import describe_error
from addon.store.backends import archived_ledger_at
from addon.store.money.archives.archive_run import archive_months
from addon.store.money.archives.archived_ledger import ArchiveBusy, ArchiveRefused
from addon.store.money.audit.audit import AuditLine
from addon.store.money.audit.audit_spool import AuditSpool
from addon.store.protocol import StoreUnavailable
from addon.telemetry.logs import configure_logging

SOURCE: Final = "gateway"
"""The source of its lines in the audit log."""
_DRAIN_TIMEOUT_S: Final = 2.0


def archive(order: ArchiveOrder) -> Iterator[ArchiveReport]:
    """Archive, and yield what was done."""
    database = Path(order.database)
    spool = AuditSpool(database)

    def record(change: ChangeRecord) -> AbstractContextManager[Recording]:
        line = AuditLine(SOURCE, "", "", "ledger archive", change.workspace, change.subject, change.text, "")
        return spool.record(line, change.evidence)

    folder = Path(order.folder)
    try:
        if not folder.is_dir():
            raise ArchiveRefused(f"{folder}: no such folder")
        ledger = archived_ledger_at(database, order.secret_url() if order.url else None)
        for step in archive_months(ledger, folder, order.before, record, spool, datetime.now(UTC)):
            if step.text:
                yield ArchiveReport("done", step.text)
        spool.drain(ledger.place, _DRAIN_TIMEOUT_S)
    except ArchiveBusy:
        yield ArchiveReport("busy")
    except (ArchiveRefused, StoreUnavailable, OSError) as error:
        yield ArchiveReport("failed", describe_error(error))
    except sqlite3.Error as error:
        # With a ledger in PostgreSQL, the only files of SQLite are archives.
        yield ArchiveReport("failed", f"{folder if order.url else database}: {error}")


def main() -> None:
    """Do one order."""
    end_with_parent()
    give_way()
    configure_logging()
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=ArchiveOrder)
    for report in archive(order):
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
