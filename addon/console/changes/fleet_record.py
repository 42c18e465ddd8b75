"""What tells the other machines of a fleet which keys a change of the console ends, or turns on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from addon.edits.recording import ChangeRecord, Record, Recording
from addon.fleet.recording import RevokingRecord
from addon.settings.conf_schema import ProxyConf
from addon.store.money.audit.audit import AuditLine
from addon.store.money.ledger import LedgerPlace

type MakeRecord = Callable[[AuditLine], Record]
"""Returns the record of a change, given its audit line."""


def find_record(place: LedgerPlace, conf: ProxyConf) -> MakeRecord:
    """Return what makes the record of a change: there are other machines only with ``[ledger] url``."""

    def make(line: AuditLine) -> Record:
        return RevokingRecord(place, lambda _: line, _unrecorded) if conf.ledger.url else _unrecorded

    return make


@contextmanager
def _unrecorded(_: ChangeRecord) -> Iterator[Recording]:
    """Let a change be made whose line is in the audit log by its intent."""
    yield Recording()
