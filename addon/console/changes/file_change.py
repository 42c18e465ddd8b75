"""``FileChange``: a change of a workspace's file, and the warnings that it would bring."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from addon.console.changes.form import AppliedChange, EditedFiles
from addon.edits.diff import DiffLine, make_diff
from addon.edits.recording import ChangeRecord, record_of
from addon.edits.references import find_refused_references, list_references
from addon.edits.workspace_files import EditError, Plan, Write
from addon.settings.builder import CheckedFile
from addon.settings.errors import SettingsError, raise_first
from addon.settings.overview import find_new_warnings
from addon.settings.settings import SettingsFiles

NOTHING_CHANGES: Final = "nothing would change"


class UneditableFileError(EditError):
    """A file can't be edited, because it is no TOML. ``command`` does what was asked for."""

    def __init__(self, reason: str, command: str) -> None:
        super().__init__(f"the file can't be edited: {reason}")
        self.command = command


@dataclass(frozen=True)
class FileChange:
    """A change of one file. ``done`` are the lines of its result, ``sealed`` the tokens of secrets that were typed,
    ``new_hash`` that of a secret which is made for it."""

    plan: Plan
    subject: str | None = None
    notes: Sequence[str] = ()
    done: Sequence[str] = ()
    sealed: Collection[str] = ()
    new_hash: str | None = None

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
        raise_first(self.find_errors(files))
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

    def record(self) -> ChangeRecord:
        return record_of(self.plan, self.subject, self.new_hash)

    def apply(self, files: EditedFiles, write: Write) -> AppliedChange:
        raise_first(self.find_errors(files))
        self.plan.apply(files.loaded, write)
        return AppliedChange(self.done)

    def find_errors(self, files: EditedFiles) -> Sequence[SettingsError]:
        """Return the errors of references to secrets, before any of them is read. Raises ``EditError``.

        Where the file is no TOML, its references are those of its last good text.
        """
        if self.plan.changes_nothing:
            raise EditError(NOTHING_CHANGES)
        kept = list_references(self.plan.text_before)
        if kept is None:
            last_good = files.loaded.last_good.text(self.plan.file.stem) or b""
            kept = list_references(last_good.decode(errors="replace")) or frozenset()
        patterns = files.settings.conf.admin.references
        return find_refused_references(kept, self.plan, patterns, self.sealed)


@dataclass(frozen=True)
class RevocationChange(FileChange):
    """A change that is also made to a file that does not load. ``turn_off`` makes it and returns a warning."""

    turn_off: Callable[[SettingsFiles, Write], str | None] = field(kw_only=True)
    hashes: frozenset[str] = field(kw_only=True)

    def record(self) -> ChangeRecord:
        return replace(super().record(), ended=self.hashes)

    def check(self, files: EditedFiles) -> Sequence[str]:
        raise_first(self.find_errors(files))
        checked = self.plan.check(files.loaded)
        return [str(checked.error)] if checked.error else self.find_warnings(checked, files)

    def apply(self, files: EditedFiles, write: Write) -> AppliedChange:
        raise_first(self.find_errors(files))
        warning = self.turn_off(files.loaded, write)
        return AppliedChange([*self.done, *([warning] if warning else [])])
