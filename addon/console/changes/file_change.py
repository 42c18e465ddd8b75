"""``FileChange``: a change of a workspace's file, and the warnings that it would bring."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from addon.console.changes.form import AppliedChange, EditedFiles
from addon.edits.diff import DiffLine, make_diff
from addon.edits.recording import file_evidence
from addon.edits.workspace_files import EditError, Plan
from addon.settings.builder import CheckedFile
from addon.settings.overview import find_new_warnings
from addon.settings.settings import SettingsFiles
from addon.store.ledger.audit_evidence import Evidence

NOTHING_CHANGES: Final = "nothing would change"


class UneditableFileError(EditError):
    """A file can't be edited, because it is no TOML. ``command`` does what was asked for."""

    def __init__(self, reason: str, command: str) -> None:
        super().__init__(f"the file can't be edited: {reason}")
        self.command = command


@dataclass(frozen=True)
class FileChange:
    """A change of one file. ``done`` are the lines of its result."""

    plan: Plan
    subject: str | None = None
    notes: Sequence[str] = ()
    done: Sequence[str] = ()

    @property
    def summary(self) -> str:
        return self.plan.summary

    @property
    def digest(self) -> str:
        return self.plan.digest

    @cached_property
    def lines(self) -> Sequence[DiffLine]:
        return make_diff(self.plan.text_before, self.plan.after)

    def check(self, files: EditedFiles) -> Sequence[str]:
        self._require_change()
        checked = self.plan.check(files.loaded)
        if checked.error:
            raise checked.error
        return self.find_warnings(checked, files)

    def find_warnings(self, checked: CheckedFile, files: EditedFiles) -> Sequence[str]:
        """Return the warnings of ``check`` that the change would bring."""
        if checked.workspace is None:
            return ()
        before = files.settings.workspaces.get(checked.workspace.id)
        if self.plan.before is not None:
            before = files.loaded.fork().load_workspace(self.plan.file).workspace or before
        found = find_new_warnings(checked.shared, before, checked.workspace, files.settings)
        return [str(one) for one in found]

    def evidence(self) -> Evidence:
        return file_evidence(self.plan.file, self.plan.before, self.plan.after)

    def apply(self, files: EditedFiles) -> AppliedChange:
        self._require_change()
        self.plan.apply(files.loaded)
        return AppliedChange(self.done)

    def _require_change(self) -> None:
        if self.plan.changes_nothing:
            raise EditError(NOTHING_CHANGES)


@dataclass(frozen=True)
class RevocationChange(FileChange):
    """A change that is also made to a file that does not load. ``turn_off`` makes it and returns a warning."""

    turn_off: Callable[[SettingsFiles], str | None] = field(kw_only=True)

    def check(self, files: EditedFiles) -> Sequence[str]:
        self._require_change()
        checked = self.plan.check(files.loaded)
        return [str(checked.error)] if checked.error else self.find_warnings(checked, files)

    def apply(self, files: EditedFiles) -> AppliedChange:
        self._require_change()
        warning = self.turn_off(files.loaded)
        return AppliedChange([*self.done, *([warning] if warning else [])])
