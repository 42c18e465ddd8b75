"""``make_change``: makes one change under the lock, from the same plan as its difference, with its audit line."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from addon.console.changes.form import AppliedChange, Change, EditedFiles, RequestedChange
from addon.console.changes.recording import IntentRecord, find_edited_ledger, find_record
from addon.console.changes.waiting import PendingChange, Result
from addon.edits.recording import ChangeRecord, Record
from addon.edits.workspace_files import EditError, lock_workspaces
from addon.settings.api_keys import make_key
from addon.settings.errors import SettingsError
from addon.settings.settings import Settings
from addon.store.backends import find_ledger
from addon.store.money.audit.audit import AuditLine, AuditLog
from addon.store.money.audit.audit_evidence import judge
from addon.store.money.audit.audit_spool import AuditSpool
from addon.store.money.ledger import CHANGE_S
from policies.model import Workspace

SOURCE: Final = "console"
CHANGED_SINCE: Final = (
    "the file has changed since the difference was shown, so nothing was written; look at it again"
)


@dataclass(frozen=True, slots=True)
class Requester:
    """The sender of a change: the IP address, and a short hash of the session's id."""

    address: str
    session: str


def make_change(waiting: PendingChange, requester: Requester) -> Result:
    """Make a change, and return its result. It is made once, also where an earlier attempt got no answer.

    Raises ``EditError``, ``SettingsError``, ``FieldErrors``, ``StoreUnavailable`` and OSError.
    """
    asked = waiting.asked
    if asked.form.makes_key:
        asked = replace(asked, new_key=make_key())
    conf = asked.files.settings.conf
    place = find_ledger(conf).bounded(CHANGE_S)
    audit = AuditLog(place, conf.paths.workspaces)

    def make_line(change: ChangeRecord) -> AuditLine:
        of_change = (asked.form.action, change.workspace, change.subject, change.text)
        return AuditLine(SOURCE, requester.address, requester.session, *of_change)

    intents = IntentRecord(audit, make_line)
    in_ledger = find_edited_ledger(place, conf, make_line, intents, asked.random_id)
    if in_ledger:
        in_ledger.refuse_without_ledger()
        if waiting.unanswered and in_ledger.has_committed():
            return waiting.unanswered
    with lock_workspaces(asked.files.conf_file) as folder:
        audit.end_abandoned_intents(judge)
        # A change of a command that died is judged before its file changes again.
        AuditSpool(conf.paths.database).settle(folder)
        change = asked.form.plan(asked)
        if change.digest != waiting.digest:
            raise in_ledger.find_conflict(asked.workspace) if in_ledger else EditError(CHANGED_SINCE)
        return _apply(waiting, change, asked, in_ledger or find_record(place, conf, make_line, intents))


def _apply(waiting: PendingChange, change: Change, asked: RequestedChange, record: Record) -> Result:
    noted = change.record()
    try:
        with record(noted) as recording:
            done = change.apply(asked.files, recording.write)
            recording.is_made = done.is_made
            waiting.unanswered = result = _make_result(change, asked, done)
    except EditError:
        waiting.unanswered = None
        raise
    waiting.unanswered = None
    result.is_in_force = _expect(asked) if "file" in noted.evidence else None
    return result


def _make_result(change: Change, asked: RequestedChange, done: AppliedChange) -> Result:
    form = asked.form
    return Result(
        form.action,
        form.title,
        asked.workspace,
        change.summary,
        done.lines,
        change.subject,
        done.is_made,
        form.makes_key,
        asked.new_key,
    )


def _expect(asked: RequestedChange) -> Callable[[Settings], bool] | None:
    """Return whether settings have the workspace as its file has it now. None where the files do not load."""
    try:
        expected = _find_served(asked.files, asked.workspace)
    except (SettingsError, OSError):
        return None
    return lambda now: now.workspaces.get(asked.workspace) == expected


def _find_served(edited: EditedFiles, workspace: str) -> Workspace | None:
    """Return a workspace as the files have it now. Raises ``SettingsError``."""
    files = edited.loaded.fork()
    loaded = files.load_workspace(edited.folder / f"{workspace}.toml")
    return loaded.workspace or files.load().workspaces.get(workspace)
