"""Changes of commands whose process dies."""

import os
import signal

from addon.edits.recording import Evidence
from addon.store.ledger.audit import AuditLine
from addon.store.ledger.audit_spool import AuditSpool

LINE = AuditLine("command", "", "", "keys set", "acme", "ci", "Change the key ci", "alice (sudo: bob)")


def die_during(spool: AuditSpool, evidence: Evidence) -> None:
    """Note a change in a process that is killed before it ends."""
    child = os.fork()
    if child == 0:
        with spool.record(LINE, evidence):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
