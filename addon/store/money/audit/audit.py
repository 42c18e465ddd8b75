"""The audit log: a line for each change by the console or by a command. Source: docs/ledger.md, "The table ``audit``".

A change and its line are in two places, a file and the ledger. The process may die between them. So a change first
writes an intent, with evidence of how to find out whether it was made. Afterwards one transaction removes the intent
and writes the line, if the change was made. The intents of the console are here: the lock of the folder of workspaces
is held from the intent to the line, so an intent that is found under this lock is one of a process that died.
``audit_spool`` has those of commands.
"""

import json
import secrets
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from addon.store.money.audit.audit_chain import HASHED, append, has_chain, name_columns, read_chain
from addon.store.money.audit.audit_evidence import Evidence, Outcome
from addon.store.money.ledger import Ledger, LedgerPlace
from addon.store.money.reports.report import has_table
from addon.text.masking import mask_credentials
from addon.text.table import Table
from policies.utc_time import format_utc

MAX_CHANGE_CHARS: Final = 8000
"""The longest text of a change. The rest is cut off."""
MAX_NAME_CHARS: Final = 256

COLUMNS: Final = (*HASHED, "hash")
_INTENT: Final = ("at", "source", "address", "session", "action", "workspace", "subject", "change")
"""The columns of a line that an intent of the console has."""
ABANDONED_AFTER: Final = timedelta(hours=1)
"""The age of an intent of another folder that counts as one of a process that died: a change takes seconds."""


@dataclass(frozen=True, slots=True)
class AuditLine:
    """A line of the log without its number: who changed what, and how. Fields are the columns of the table.

    ``user`` is the user of the system, for a command; ``address`` and ``session`` are for the console.
    """

    source: str
    address: str
    session: str
    action: str
    workspace: str
    subject: str | None
    change: str
    user: str = ""

    def values(self) -> dict[str, str | None]:
        """Return the columns ``at``, now, to ``change``, without secrets and bounded."""
        named = {name: _bound(getattr(self, name)) for name in self.__slots__ if name != "change"}
        return {**named, "at": format_utc(datetime.now(UTC)), "change": _cut(mask_credentials(self.change))}


def _bound(name: str | None) -> str | None:
    return (
        name and mask_credentials(name.replace("\0", "").encode(errors="replace").decode())[:MAX_NAME_CHARS]
    )


def _cut(text: str) -> str:
    text = text.replace("\0", "").encode(errors="replace").decode()
    return text if len(text) <= MAX_CHANGE_CHARS else f"{text[:MAX_CHANGE_CHARS]}\n… cut off"


class AuditLog:
    """The audit log of a ledger, for changes under the lock of the folder ``workspaces``.

    Other machines may write to the same log, and have folders of their own. The methods raise ``StoreUnavailable``.
    """

    def __init__(self, place: LedgerPlace, workspaces: Path) -> None:
        self._place = place
        self._workspaces = workspaces

    def note_intent(self, line: AuditLine, evidence: Evidence) -> str:
        """Note a change that is about to be made, and return the id of the note. It is on the disk afterwards."""
        intent_id = secrets.token_hex(16)
        of_line = line.values()
        noted = json.dumps({**evidence, "origin": self._find_origin()})
        values = (intent_id, *(of_line[name] for name in _INTENT), noted)
        with self._place.write() as ledger:
            ledger.execute("INSERT INTO audit_intents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        return intent_id

    def end(self, intent_id: str, outcome: Outcome) -> None:
        """Replace an intent by its line, or by nothing when the change was not made."""
        with self._place.write() as ledger:
            sql = f"SELECT {', '.join(_INTENT)} FROM audit_intents WHERE id = ?"  # noqa: S608
            found = ledger.execute(sql, (intent_id,)).fetchone()
            if found and outcome != "not made":
                line = dict(zip(_INTENT, found, strict=True))
                append(ledger, {**line, "id": intent_id, "user": "", "outcome": outcome})
            ledger.execute("DELETE FROM audit_intents WHERE id = ?", (intent_id,))

    def end_abandoned_intents(self, judge: Callable[[Ledger, Evidence], Outcome]) -> None:
        """End the intents of processes that died. ``judge`` finds out whether a change was made.

        The caller has the lock of the workspaces' folder. A ledger that is not made yet, or is older, has none.
        """
        if not self._place.exists():
            return
        with self._place.read() as ledger:
            if not has_table(ledger, "audit_intents"):
                return
            rows = ledger.execute("SELECT id, at, evidence FROM audit_intents ORDER BY at").fetchall()
            found = [(intent_id, at, json.loads(evidence)) for intent_id, at, evidence in rows]
            ended = [
                (intent_id, outcome)
                for intent_id, at, evidence in found
                if (outcome := self._judge(ledger, at, evidence, judge))
            ]
        for intent_id, outcome in ended:
            self.end(intent_id, outcome)

    def _judge(
        self, ledger: Ledger, at: str, evidence: Evidence, judge: Callable[[Ledger, Evidence], Outcome]
    ) -> Outcome | None:
        """Return the outcome of an intent, None for one whose process may live."""
        evidence = dict(evidence)
        # Versions before a ledger of several machines noted no origin.
        if evidence.pop("origin", self._find_origin()) == self._find_origin():
            return judge(ledger, evidence)
        if datetime.fromisoformat(at) > datetime.now(UTC) - ABANDONED_AFTER:
            return None
        # The files that the evidence names are on another machine.
        return judge(ledger, evidence) if "entry" in evidence else "unknown"

    def _find_origin(self) -> str:
        """Return which folder's lock an intent is written under: no other folder of any machine has the same text."""
        found = self._workspaces.stat()
        return f"{socket.gethostname()} {found.st_dev}:{found.st_ino}"


def find_lines(
    ledger: Ledger,
    workspace: str | None,
    action: str | None,
    before: int | None,
    limit: int,
) -> Table:
    """Return the newest lines, newest first, of those with a number below ``before``."""
    if not has_chain(ledger):
        return Table(COLUMNS, [])
    conditions = {"workspace = ?": workspace, "action = ?": action, "number < ?": before}
    given = {condition: value for condition, value in conditions.items() if value is not None}
    where = " AND ".join(given) or "TRUE"
    sql = f"SELECT {name_columns(COLUMNS)} FROM audit WHERE {where} ORDER BY number DESC LIMIT ?"  # noqa: S608
    return Table(COLUMNS, ledger.execute(sql, (*given.values(), limit)).fetchall())


def find_audit_gaps(ledger: Ledger) -> Iterable[str]:
    """Yield one line for each sign that the log was changed by another program."""
    if not has_table(ledger, "audit"):
        # Versions before the audit log made neither of its tables.
        if has_table(ledger, "audit_intents"):
            yield "audit: the table is missing"
        return
    count, last = ledger.execute("SELECT count(*), coalesce(max(number), 0) FROM audit").fetchone()
    (given,) = ledger.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'audit'"
    ).fetchone()
    if count != max(last, given):
        yield f"audit: {max(last, given)} lines were written, {count} are there"
    sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'audit'"
    (triggers,) = ledger.execute(sql).fetchone()
    if triggers != 3:
        yield "audit: the triggers that keep its lines are missing"
    yield from read_chain(ledger).faults
