"""The audit log: a line for each change by the console or by a command. Source: docs/ledger.md, "The table ``audit``".

A change and its line are in two places, a file and the ledger. The process may die between them. So a change first
writes an intent, with evidence of how to find out whether it was made. Afterwards one transaction removes the intent
and writes the line, if the change was made. The intents of the console are here: the lock of the folder of workspaces
is held from the intent to the line, so an intent that is found under this lock is one of a process that died.
``audit_spool`` has those of commands.
"""

import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from addon.store.money.audit.audit_chain import append, has_chain, read_chain
from addon.store.money.audit.audit_evidence import Evidence, Outcome
from addon.store.money.reports.report import has_table
from addon.store.money.sqlite.connection import raising_unavailable
from addon.text.masking import mask_credentials
from addon.text.table import Table
from policies.utc_time import format_utc

MAX_CHANGE_CHARS: Final = 8000
"""The longest text of a change. The rest is cut off."""
MAX_NAME_CHARS: Final = 256

COLUMNS: Final = (
    *(
        "number",
        "at",
        "source",
        "user",
        "address",
        "session",
        "action",
        "workspace",
        "subject",
        "change",
        "outcome",
    ),
    *("id", "hash"),
)
_INTENT: Final = ("at", "source", "address", "session", "action", "workspace", "subject", "change")
"""The columns of a line that an intent of the console has."""
_TIMEOUT_S: Final = 5.0


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
    return name and mask_credentials(name.encode(errors="replace").decode())[:MAX_NAME_CHARS]


def _cut(text: str) -> str:
    text = text.encode(errors="replace").decode()
    return text if len(text) <= MAX_CHANGE_CHARS else f"{text[:MAX_CHANGE_CHARS]}\n… cut off"


class AuditLog:
    """The audit log of the ledger at ``path``. Its methods raise ``StoreUnavailable``."""

    def __init__(self, path: Path, timeout_s: float | None = None) -> None:
        self._path = path
        self._timeout_s = _TIMEOUT_S if timeout_s is None else timeout_s

    def note_intent(self, line: AuditLine, evidence: Evidence) -> str:
        """Note a change that is about to be made, and return the id of the note. It is on the disk afterwards."""
        intent_id = secrets.token_hex(16)
        of_line = line.values()
        values = (intent_id, *(of_line[name] for name in _INTENT), json.dumps(evidence))
        with self.transaction() as connection:
            connection.execute("INSERT INTO audit_intents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        return intent_id

    def end(self, intent_id: str, outcome: Outcome) -> None:
        """Replace an intent by its line, or by nothing when the change was not made."""
        with self.transaction() as connection:
            sql = f"SELECT {', '.join(_INTENT)} FROM audit_intents WHERE id = ?"  # noqa: S608
            found = connection.execute(sql, (intent_id,)).fetchone()
            if found and outcome != "not made":
                line = dict(zip(_INTENT, found, strict=True))
                append(connection, {**line, "id": intent_id, "user": "", "outcome": outcome})
            connection.execute("DELETE FROM audit_intents WHERE id = ?", (intent_id,))

    def end_abandoned_intents(self, judge: Callable[[sqlite3.Connection, Evidence], Outcome]) -> None:
        """End the intents of processes that died. ``judge`` finds out whether a change was made.

        The caller has the lock of the workspaces' folder. A ledger that is not made yet, or is older, has none.
        """
        if not self._path.exists():
            return
        with raising_unavailable(self._path), closing(self._open()) as connection:
            if not has_table(connection, "audit_intents"):
                return
            rows = connection.execute("SELECT id, evidence FROM audit_intents ORDER BY at").fetchall()
            ended = [(intent_id, judge(connection, json.loads(evidence))) for intent_id, evidence in rows]
        for intent_id, outcome in ended:
            self.end(intent_id, outcome)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give a connection whose changes are on the disk afterwards. No other process writes meanwhile."""
        with raising_unavailable(self._path), closing(self._open()) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    def _open(self) -> sqlite3.Connection:
        # The gateway that the console belongs to has made the file. It is not made here, so that nothing is written
        # next to a ledger that was moved away.
        os.stat(self._path)
        connection = sqlite3.connect(self._path, timeout=self._timeout_s, isolation_level=None)
        # A line survives a loss of power, as its change does.
        connection.execute("PRAGMA synchronous = FULL")
        return connection


def find_lines(
    connection: sqlite3.Connection,
    workspace: str | None,
    action: str | None,
    before: int | None,
    limit: int,
) -> Table:
    """Return the newest lines, newest first, of those with a number below ``before``."""
    if not has_chain(connection):
        return Table(COLUMNS, [])
    conditions = {"workspace = ?": workspace, "action = ?": action, "number < ?": before}
    given = {condition: value for condition, value in conditions.items() if value is not None}
    sql = f"SELECT {', '.join(COLUMNS)} FROM audit WHERE {' AND '.join(given) or 'TRUE'} ORDER BY number DESC LIMIT ?"  # noqa: S608
    return Table(COLUMNS, connection.execute(sql, (*given.values(), limit)).fetchall())


def find_audit_gaps(connection: sqlite3.Connection) -> Iterable[str]:
    """Yield one line for each sign that the log was changed by another program."""
    if not has_table(connection, "audit"):
        # Versions before the audit log made neither of its tables.
        if has_table(connection, "audit_intents"):
            yield "audit: the table is missing"
        return
    count, last = connection.execute("SELECT count(*), coalesce(max(number), 0) FROM audit").fetchone()
    (given,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'audit'"
    ).fetchone()
    if count != max(last, given):
        yield f"audit: {max(last, given)} lines were written, {count} are there"
    sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'audit'"
    (triggers,) = connection.execute(sql).fetchone()
    if triggers != 3:
        yield "audit: the triggers that keep its lines are missing"
    yield from read_chain(connection).faults
