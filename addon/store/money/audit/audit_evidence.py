"""Whether a change was made whose process died: found by the evidence that was noted before the change.

| evidence | the change was made when |
|---|---|
| ``file``, ``before``, ``after`` | the file has the digest ``after``; not, when it has ``before`` |
| ``entry``, ``at`` | the wallet has this entry of this time |
| ``replaced``, ``inode`` | the file ``replaced`` is another one than the one with this inode |
| ``archived``, ``sha256`` | the record of the month has this digest |
| none | that can't be found out |
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from addon.edits.workspace_files import hash_content
from addon.store.money.archives.archives import find_archive
from addon.store.money.reports.report import find_entry
from policies.utc_time import format_utc

type Evidence = Mapping[str, Any]
type Outcome = Literal["made", "not made", "unknown"]


def judge(ledger: Any, evidence: Evidence) -> Outcome:
    """Return whether a change was made."""
    if "entry" in evidence:
        return _judge_entry(ledger, evidence)
    if "archived" in evidence:
        archive = find_archive(ledger, evidence["archived"])
        return "made" if archive and archive.file_sha256 == evidence["sha256"] else "not made"
    return judge_files(evidence) or "unknown"


def judge_files(evidence: Evidence) -> Outcome | None:
    """Return whether a change was made, if that can be found out without the ledger; else None."""
    if "file" in evidence:
        return _judge_file(evidence)
    return _judge_replacement(evidence) if "replaced" in evidence else None


def find_folder(evidence: Evidence) -> Path | None:
    """Return the folder that is locked during the change, None when there is none."""
    return Path(evidence["file"]).parent if "file" in evidence else None


def _judge_file(evidence: Evidence) -> Outcome:
    try:
        digest = hash_content(Path(evidence["file"]).read_bytes())
    except FileNotFoundError:
        digest = ""
    except OSError:
        return "unknown"
    if digest == evidence["after"]:
        return "made"
    return "not made" if digest == evidence["before"] else "unknown"


def _judge_replacement(evidence: Evidence) -> Outcome:
    try:
        inode = Path(evidence["replaced"]).stat().st_ino
    except FileNotFoundError:
        inode = None
    except OSError:
        return "unknown"
    if inode == evidence["inode"]:
        return "not made"
    # A gateway may have made a ledger where there was none.
    return "made" if evidence["inode"] is not None and inode is not None else "unknown"


def _judge_entry(ledger: Any, evidence: Evidence) -> Outcome:
    stored = find_entry(ledger, evidence["entry"])
    # The same entry of someone else is not this change.
    return "made" if stored is not None and format_utc(stored.created_at) == evidence["at"] else "not made"
