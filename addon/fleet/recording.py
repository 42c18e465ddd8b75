"""Changes of what machines share: a file in the ledger with its audit line in one transaction, and revocations.

``EditedLedger`` is for files in the ledger, ``RevokingRecord`` for files of this machine whose keys other machines may
have too. Both are ``Record``.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from addon.edits.recording import ChangeRecord, Record, Recording
from addon.edits.workspace_files import EditError
from addon.fleet import tables
from addon.fleet.copies import Copies, refresh
from addon.fleet.tables import FileWrite
from addon.runtime.folder_lock import locked
from addon.settings.errors import describe_error
from addon.settings.parsed_text import find_hashes
from addon.store.money.audit.audit import AuditLine
from addon.store.money.audit.audit_chain import append
from addon.store.money.ledger import CHANGE_S, Ledger, LedgerPlace
from addon.store.protocol import StoreUnavailable

type MakeLine = Callable[[ChangeRecord], AuditLine]
"""Makes the audit line of a change, with who makes it."""


class EditedLedger:
    """The workspace files in the ledger. ``others`` records changes of anything else.

    Before a change is planned, the copies are made those of the ledger. A change with an id, which its audit line gets,
    is made once, however often it is tried.
    """

    def __init__(
        self,
        place: LedgerPlace,
        copies: Copies,
        make_line: MakeLine,
        others: Record,
        change_id: str | None = None,
    ) -> None:
        self._place = place.bounded(CHANGE_S)
        self._copies = copies
        self._make_line = make_line
        self._others = others
        self._change_id = change_id
        self._fault: str | None = None
        try:
            refresh(self._place, copies)
        except (StoreUnavailable, OSError) as error:
            self._fault = describe_error(error)

    @contextmanager
    def __call__(self, change: ChangeRecord) -> Iterator[Recording]:
        """Commit what the ``with`` block writes, with its line. Raises ``StoreUnavailable`` and ``EditError``."""
        if not self._is_here(change):
            with self._others(change) as recording:
                yield recording
            return
        if self._fault:
            raise StoreUnavailable(f"nothing was changed: {self._fault}")
        writes: list[FileWrite] = []

        def write(file: Path, text: str, before: bytes | None) -> None:
            writes.append(FileWrite(file.stem, text, before))

        recording = Recording(write=write)
        try:
            yield recording
        except Exception:
            if writes:  # As in a file, what was written before the error stays.
                self.commit(writes, [change])
            raise
        self.commit(writes, [change], is_made=recording.is_made)

    def _is_here(self, change: ChangeRecord) -> bool:
        file = change.evidence.get("file")
        return (
            bool(change.ended or change.allowed) if file is None else Path(file).parent == self._copies.folder
        )

    def commit(
        self, writes: Sequence[FileWrite], changes: Sequence[ChangeRecord], *, is_made: bool = True
    ) -> None:
        """Commit files with the lines of their changes. The caller has the lock of the copies. Raises as the call."""
        with self._place.write() as ledger:
            lines = [self._make_line(change) for change in changes]
            for change, line in zip(changes, lines, strict=True):
                _note_keys(ledger, change, _name_user(line))
                if is_made:
                    _append(ledger, line, self._change_id or secrets.token_hex(16))
            _claim(ledger, writes)
            version = tables.write_files(ledger, writes, _name_user(lines[0]))
        with suppress(OSError):  # The change is made. The next look at the ledger makes the copies.
            self._copies.put(version, {one.id: one.text for one in writes})

    def has_committed(self) -> bool:
        """Return whether the change with this id was made. No earlier attempt can make it later. Raises as the call."""
        with self._place.write() as ledger:
            found = ledger.execute("SELECT 1 FROM audit WHERE id = ?", (self._change_id,)).fetchone()
        return found is not None

    def find_conflict(self, workspace: str) -> EditError:
        """Return the error of a change of a file that is not as it was shown. Raises ``StoreUnavailable``."""
        with self._place.read() as ledger:
            return tables.find_conflict(ledger, workspace)

    def refuse_without_ledger(self) -> None:
        """Raise ``StoreUnavailable`` where the copies could not be made those of the ledger."""
        if self._fault:
            raise StoreUnavailable(self._fault)


class RevokingRecord:
    """Records a change of files of this machine, and tells the ledger which keys it ends on all machines."""

    def __init__(self, place: LedgerPlace, make_line: MakeLine, inner: Record) -> None:
        self._place = place.bounded(CHANGE_S)
        self._make_line = make_line
        self._inner = inner

    @contextmanager
    def __call__(self, change: ChangeRecord) -> Iterator[Recording]:
        """Note keys that end before the change is made here, and keys that are turned on after it.

        The change is made here in any case. Raises ``StoreUnavailable`` where the others don't know of it.
        """
        fault = self._note(change, allowed=False) if change.ended else None
        with self._inner(change) as recording:
            yield recording
        if change.allowed:
            fault = self._note(change, allowed=True) or fault
        if fault:
            raise StoreUnavailable(
                f"this was done for the files of this machine only, and could not be recorded for the others: {fault};"
                " run it again when the ledger is back"
            )

    def _note(self, change: ChangeRecord, *, allowed: bool) -> str | None:
        line = self._make_line(change)
        try:
            with self._place.write() as ledger:
                if allowed:
                    tables.allow(ledger, change.allowed)
                else:
                    tables.revoke(
                        ledger, change.ended, change.workspace, change.subject or "", _name_user(line)
                    )
                ledger.execute(tables.BUMP)
        except StoreUnavailable as error:
            return str(error)
        return None


@contextmanager
def editing(record: EditedLedger, copies: Copies) -> Iterator[None]:
    """Hold the lock of the copies."""
    record.refuse_without_ledger()
    copies.make_folder()
    with locked(copies.folder):
        yield


def _note_keys(ledger: Ledger, change: ChangeRecord, user: str) -> None:
    if change.ended:
        tables.revoke(ledger, change.ended, change.workspace, change.subject or "", user)
    if change.allowed:
        tables.allow(ledger, change.allowed)


def _name_user(line: AuditLine) -> str:
    return line.user or f"the {line.source}, from {line.address}"


def _append(ledger: Ledger, line: AuditLine, line_id: str) -> None:
    values: Mapping[str, Any] = line.values()
    append(ledger, {**values, "id": line_id, "outcome": "made"})


def _claim(ledger: Ledger, writes: Sequence[FileWrite]) -> None:
    """Note which keys the files have. Raise ``EditError`` where the file of another workspace has one already."""
    for one in writes:
        ledger.execute("DELETE FROM key_claims WHERE machine = '' AND workspace = ?", (one.id,))
    for one in writes:
        hashes = set(find_hashes(Path(f"{one.id}.toml"), (one.text or "").encode()))
        for key_hash in sorted(hashes):
            sql = "SELECT workspace FROM key_claims WHERE hash = ? AND machine = '' AND workspace <> ?"
            if found := ledger.execute(sql, (key_hash, one.id)).fetchone():
                raise EditError(
                    f"a key of workspace {one.id} has the same hash as one of workspace {found[0]}"
                )
            ledger.execute(
                "INSERT INTO key_claims (hash, workspace, machine) VALUES (?, ?, '')", (key_hash, one.id)
            )
