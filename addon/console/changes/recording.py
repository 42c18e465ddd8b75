"""How a change of the console is recorded: with an intent, or in the transaction of a file that is in the ledger."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from addon.edits.recording import ChangeRecord, Record, Recording
from addon.fleet.copies import Copies, refresh
from addon.fleet.recording import EditedLedger, MakeLine, RevokingRecord
from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import describe_error
from addon.store.backends import find_ledger
from addon.store.money.audit.audit import AuditLog
from addon.store.money.audit.audit_evidence import judge
from addon.store.money.ledger import LedgerPlace
from addon.store.protocol import StoreUnavailable

log = logging.getLogger("tollgate.console")

LOOK_S: Final = 2.0
"""How long a form waits for a ledger that is connected. Then it shows the last copies."""


class IntentRecord:
    """Notes the intent of a change before it is made, and its line after it. The caller has the lock of ``audit``."""

    def __init__(self, audit: AuditLog, make_line: MakeLine) -> None:
        self._audit = audit
        self._make_line = make_line

    @contextmanager
    def __call__(self, change: ChangeRecord) -> Iterator[Recording]:
        """See ``Record``. Raises ``StoreUnavailable`` before anything is changed."""
        intent, recording = self._audit.note_intent(self._make_line(change), change.evidence), Recording()
        try:
            yield recording
        except BaseException:
            with suppress(StoreUnavailable):
                self._audit.end_abandoned_intents(judge)
            raise
        try:
            self._audit.end(intent, "made" if recording.is_made else "not made")
        except StoreUnavailable as error:
            # The intent becomes the line before the next change.
            log.warning("a change was made, and its line in the audit log is written later: %s", error)


def find_record(place: LedgerPlace, conf: ProxyConf, make_line: MakeLine, others: IntentRecord) -> Record:
    """Return the record of a change of files of this machine. There are other machines only with ``[ledger] url``."""
    return RevokingRecord(place, make_line, others) if conf.ledger.url else others


def find_edited_ledger(
    place: LedgerPlace, conf: ProxyConf, make_line: MakeLine, others: Record, change_id: str | None
) -> EditedLedger | None:
    """Return the files in the ledger, None where they are not there. The caller does not have the lock yet."""
    if not conf.paths.are_workspaces_in_ledger:
        return None
    return EditedLedger(place, Copies(conf.paths.workspaces), make_line, others, change_id)


def refresh_files(conf: ProxyConf) -> str | None:
    """Make the copies of files that are in the ledger the newest ones. Return why that can't be done now."""
    if not conf.paths.are_workspaces_in_ledger:
        return None
    try:
        refresh(find_ledger(conf).bounded(LOOK_S), Copies(conf.paths.workspaces))
    except (StoreUnavailable, OSError) as error:
        return describe_error(error)
    return None
