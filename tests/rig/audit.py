"""Changes of commands whose process dies, and the lines of a log."""

import os
import signal
from pathlib import Path

from addon.edits.recording import Evidence
from addon.store.money.audit.audit import AuditLine, find_lines
from addon.store.money.audit.audit_spool import AuditSpool
from addon.store.money.ledger import LedgerPlace
from addon.store.money.sqlite.place import SqlitePlace

LINE = AuditLine("command", "", "", "keys set", "acme", "ci", "Change the key ci", "alice (sudo: bob)")


def die_during(spool: AuditSpool, evidence: Evidence) -> None:
    """Note a change in a process that is killed before it ends."""
    child = os.fork()
    if child == 0:
        with spool.record(LINE, evidence):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def read_actions(ledger: Path | LedgerPlace) -> list[tuple[str, str]]:
    """Return the action and the outcome of each line, the oldest first."""
    place = SqlitePlace(ledger) if isinstance(ledger, Path) else ledger
    with place.read() as connection:
        lines = find_lines(connection, None, None, None, 100).records()
    return [(line["action"], line["outcome"]) for line in reversed(lines)]
