"""Changes of commands on their way to the audit log. Source: docs/decisions/each-change-has-its-audit-line.md.

A command must work while the ledger is locked or missing. So each of its changes is a file of its own in a folder next
to the ledger, on the disk before the change is made. Its name says how far it is:

| name ends with | is | next |
|---|---|---|
| ``.intent`` | a change that is being made; its process has the file locked | renamed, or removed if it was not made |
| ``.made``, ``.unknown`` | a change that has ended | becomes a line of the ledger, and is removed |
| ``.unreadable`` | a file that some other program changed | stays |

The outcome is a new name, which needs no room on the disk. A file becomes a line by its id, so it never becomes two.
"""

import fcntl
import json
import logging
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from addon.edits.recording import Recording
from addon.runtime.atomic_files import sync_path
from addon.runtime.folder_lock import is_locked, try_locked
from addon.store.money.audit.audit import AuditLine
from addon.store.money.audit.audit_chain import HASHED, append, has_chain
from addon.store.money.audit.audit_evidence import Evidence, Outcome, find_folder, judge, judge_files
from addon.store.money.ledger import Ledger, LedgerPlace

log = logging.getLogger("tollgate.store")

MAX_BATCH: Final = 100
"""The most files that become lines in one transaction."""
_INTENT: Final = ".intent"
_UNJUDGED: Final[Outcome | None] = None
_ENDED: Final[dict[str, Outcome]] = {".made": "made", ".unknown": "unknown"}
_LINE: Final = frozenset(HASHED) - {"number", "outcome"}


class _Change(NamedTuple):
    """A file of the spool. ``outcome`` is None while only the ledger can say it."""

    file: Path
    line: dict[str, Any]
    evidence: Evidence
    outcome: Outcome | None


class AuditSpool:
    """The changes of commands on this machine that are not in the audit log yet. Their folder is next to ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = path.with_name(f"{path.name}-audit")

    @contextmanager
    def record(self, line: AuditLine, evidence: Evidence) -> Iterator[Recording]:
        """Note a change, which is made in the ``with`` block, and note how it ended. Raises OSError before it.

        After an exception, the evidence says whether the change was made.
        """
        file, descriptor = self._begin(line, evidence)
        recording, outcome = Recording(), _UNJUDGED
        try:
            try:
                yield recording
            except BaseException:
                outcome = judge_files(evidence)
                raise
            else:
                outcome = "made" if recording.is_made else "not made"
            finally:
                # Where that fails, the next look finds the outcome by the evidence.
                with suppress(OSError):
                    self._end(file, outcome)
        finally:
            os.close(descriptor)

    def is_empty(self) -> bool:
        """Return whether no change waits. Raises OSError."""
        return not self._list(_INTENT, *_ENDED)

    def settle(self, held: Path | None = None) -> None:
        """Find out which changes of processes that died were made, before a file is changed again. Raises OSError.

        The caller has the lock of the folder ``held``. A change of a file in another folder that is locked is left.
        """
        for change in self._read(_INTENT):
            folder = find_folder(change.evidence)
            if is_locked(change.file):
                continue
            if folder is None or (held is not None and folder == held.absolute()):
                self._end(change.file, judge_files(change.evidence))
                continue
            # A folder that this user may not read is left to one who may.
            with suppress(PermissionError), _try_locked(folder) as is_held:
                if is_held:
                    self._end(change.file, judge_files(change.evidence))

    def drain(self, place: LedgerPlace, timeout_s: float) -> int:
        """Write the changes that have ended to the ledger at ``place``. Return how many wait there still.

        A ledger that is missing, or that an earlier version has made, gets none. Raises OSError and
        ``StoreUnavailable``.
        """
        self.settle()
        while waiting := self._read_ended():
            if not place.exists():
                return len(waiting)
            with place.write(timeout_s) as ledger:
                if not has_chain(ledger):
                    return len(waiting)
                illegal = [one for one in waiting if not _write(ledger, one, place.never_writable)]
            for change in waiting:
                if change not in illegal:
                    change.file.unlink(missing_ok=True)
                else:
                    _put_aside(change.file, "the ledger refuses its line")
        for file in (left := self._list(*_ENDED)):
            with suppress(FileNotFoundError):
                file.read_bytes()  # Raises what keeps it from being read.
        return len(left)

    def _begin(self, line: AuditLine, evidence: Evidence) -> tuple[Path, int]:
        """Write the file of a change, with all that its line needs, and lock it."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        _give_to_owner(self._folder, self._path.parent)
        values = line.values()
        change_id = secrets.token_hex(16)
        content = json.dumps({"line": {**values, "id": change_id}, "evidence": evidence})
        # The time is first, so that the names are in the order of the changes, also of two in one millisecond.
        file = self._folder / f"{values['at']}-{time.time_ns()}-{change_id}{_INTENT}"
        partial = file.with_suffix(".partial")
        descriptor = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _give_to_owner(partial, self._folder)
            with open(descriptor, "w", encoding="utf-8", closefd=False) as stream:
                stream.write(content)
            os.fsync(descriptor)
            partial.rename(file)
            sync_path(self._folder)
        except BaseException:
            os.close(descriptor)
            partial.unlink(missing_ok=True)
            raise
        return file, descriptor

    def _end(self, file: Path, outcome: Outcome | None) -> None:
        """Note an outcome. None: only the ledger knows it, so the file stays as it is."""
        if outcome is None:
            return
        with suppress(FileNotFoundError):
            if outcome == "not made":
                file.unlink()
            else:
                file.rename(file.with_suffix(f".{outcome}"))
        sync_path(self._folder)

    def _read_ended(self) -> list[_Change]:
        """Return the oldest changes that have ended, and those of dead processes that only the ledger can judge."""
        found = [*self._read(*_ENDED), *(one for one in self._read(_INTENT) if _is_for_ledger(one))]
        return found[:MAX_BATCH]

    def _read(self, *suffixes: str) -> Iterator[_Change]:
        for file in self._list(*suffixes):
            try:
                content = json.loads(file.read_text(encoding="utf-8"))
                line, evidence = content["line"], content["evidence"]
                if line.keys() != _LINE or not isinstance(evidence, dict):
                    raise ValueError("it has other keys")
            except (FileNotFoundError, PermissionError):
                continue  # Another process was faster, or another user made the file.
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                _put_aside(file, str(error))
                continue
            yield _Change(file, line, evidence, _ENDED.get(file.suffix))

    def _list(self, *suffixes: str) -> list[Path]:
        try:
            with closing(os.scandir(self._folder)) as entries:
                names = sorted(one.name for one in entries if one.name.endswith(suffixes))
        except FileNotFoundError:
            return []
        return [self._folder / name for name in names]


@contextmanager
def _try_locked(folder: Path) -> Iterator[bool]:
    """As ``try_locked``. A folder that is gone needs no lock."""
    try:
        folder.stat()
    except FileNotFoundError:
        yield True
        return
    with try_locked(folder) as is_held:
        yield is_held


def _is_for_ledger(change: _Change) -> bool:
    """Return whether a change is one of a dead process, and its evidence is in the ledger or nowhere."""
    try:
        return judge_files(change.evidence) is None and not is_locked(change.file)
    except OSError:
        return False


def _write(ledger: Ledger, change: _Change, never_writable: tuple[type[Exception], ...]) -> bool:
    """Write the line of a change that was made. Return False for one that can never be written."""
    outcome = change.outcome or judge(ledger, change.evidence)
    ledger.execute("SAVEPOINT line")
    try:
        if outcome != "not made":
            append(ledger, {**change.line, "outcome": outcome})
    except never_writable:
        ledger.execute("ROLLBACK TO SAVEPOINT line")
        return False
    finally:
        ledger.execute("RELEASE SAVEPOINT line")
    return True


def _put_aside(file: Path, reason: str) -> None:
    """Keep a file that can't become a line, so that those after it can."""
    log.warning("a change is not in the audit log: %s: %s", file, reason)
    with suppress(FileNotFoundError):
        file.rename(file.with_suffix(".unreadable"))


def _give_to_owner(path: Path, owned: Path) -> None:
    """Give what root has made to the owner of ``owned``: the gateway must be able to read it."""
    if os.geteuid() == 0:
        found = owned.stat()
        os.chown(path, found.st_uid, found.st_gid, follow_symlinks=False)
