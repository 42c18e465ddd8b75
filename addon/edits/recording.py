"""What the audit log says of a change: it is noted before the change is made. Source: docs/ledger.md.

An edit gets a ``Record`` from its command. So no edit of a command can be made without its line.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from addon.edits.diff import make_diff
from addon.edits.usable_keys import find_usable
from addon.edits.workspace_files import Plan, Write, hash_content, write_unchanged
from addon.settings.settings import SettingsFiles

type Evidence = Mapping[str, Any]
"""How to find out later whether a change was made. Source: ``addon.store.money.audit.audit_evidence``."""


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """A change that is about to be made.

    | field | is |
    |---|---|
    | ``text`` | what it does in one line, then the lines that differ, without secrets |
    | ``evidence`` | how to find out later whether it was made |
    | ``workspace`` | the workspace that is changed, empty for none |
    | ``subject`` | the id of the key that is changed, None for any other change |
    | ``ended``, ``allowed`` | the hashes of the keys that it turns off for good, and of those that it turns on |
    """

    text: str
    evidence: Evidence = field(default_factory=dict)
    workspace: str = ""
    subject: str | None = None
    ended: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset()


@dataclass(slots=True)
class Recording:
    """A change that is being made. Set ``is_made`` to False when there was nothing to change.

    ``write`` is for a change of a workspace file, which may be in the ledger.
    """

    is_made: bool = True
    write: Write = write_unchanged


type Record = Callable[[ChangeRecord], AbstractContextManager[Recording]]
"""Notes a change, lets it be made in its ``with`` block, and notes how it ended."""


def file_evidence(file: Path, before: bytes | None, after: str) -> Evidence:
    """Return the evidence of a change of one file, whose folder is locked meanwhile. ``before`` None: no file."""
    return {
        "file": str(file.absolute()),
        "before": "" if before is None else hash_content(before),
        "after": hash_content(after.encode()),
    }


def record_of(plan: Plan, subject: str | None = None, new_hash: str | None = None) -> ChangeRecord:
    """Return the record of a plan. The lines that differ have no secrets.

    ``new_hash`` is that of a secret that was made for this change: no machine can have revoked it.
    """
    lines = make_diff(plan.text_before, plan.after)
    text = "\n".join([plan.summary, *map(str, lines)])
    had, has = find_usable(plan.before or b""), find_usable(plan.after.encode())
    evidence = file_evidence(plan.file, plan.before, plan.after)
    return ChangeRecord(text, evidence, plan.file.stem, subject, had - has, has - had - {new_hash})


def apply_recorded(
    plan: Plan, files: SettingsFiles, record: Record, subject: str | None = None, new_hash: str | None = None
) -> None:
    """Make the edit of a plan, with its line in the audit log. Raises as ``Plan.apply``. ``new_hash``: ``record_of``.

    A plan that changes nothing has no line.
    """
    if plan.changes_nothing:
        plan.apply(files)
        return
    with record(record_of(plan, subject, new_hash)) as recording:
        plan.apply(files, recording.write)
