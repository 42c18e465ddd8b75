"""``FileChange``: a change of a workspace's file, and the warnings that it would bring."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from addon.console.changes.form import AppliedChange, EditedFiles
from addon.edits.diff import DiffLine, make_diff
from addon.edits.workspace_files import EditError, Plan, hash_content
from addon.settings.errors import Problem
from addon.settings.overview import find_file_warnings
from addon.settings.settings import Settings, SettingsFiles
from addon.store.ledger.audit import Evidence, Outcome

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
        settings, problem = load_with(self.plan, files.conf_file)
        if problem:
            raise problem.error
        return find_new_warnings(settings, files.conf_file)

    def evidence(self) -> Evidence:
        return {
            "file": str(self.plan.file),
            "before": self.plan.digest,
            "after": hash_content(self.plan.after.encode()),
        }

    def apply(self, files: EditedFiles) -> AppliedChange:
        self._require_change()
        self.plan.apply(files.conf_file)
        return AppliedChange(self.done)

    def _require_change(self) -> None:
        if self.plan.before is not None and self.plan.before == self.plan.after.encode():
            raise EditError(NOTHING_CHANGES)


@dataclass(frozen=True)
class RevocationChange(FileChange):
    """A change that is also made to a file that does not load. ``turn_off`` makes it and returns a warning."""

    turn_off: Callable[[Path], str | None] = field(kw_only=True)

    def check(self, files: EditedFiles) -> Sequence[str]:
        self._require_change()
        settings, problem = load_with(self.plan, files.conf_file)
        return [str(problem)] if problem else find_new_warnings(settings, files.conf_file)

    def apply(self, files: EditedFiles) -> AppliedChange:
        self._require_change()
        warning = self.turn_off(files.conf_file)
        return AppliedChange([*self.done, *([warning] if warning else [])])


def load_with(plan: Plan, conf_file: Path) -> tuple[Settings, Problem | None]:
    """Return the settings that a plan would bring, and its file's problem. Raises ``SettingsError``."""
    settings = SettingsFiles(conf_file, overlay={plan.file: plan.after}).load()
    return settings, next((one for one in settings.problems if one.file == plan.file), None)


def find_new_warnings(settings: Settings, conf_file: Path) -> Sequence[str]:
    """Return the warnings of ``check`` that the settings in the files do not have."""
    before = {str(one) for one in find_file_warnings(SettingsFiles(conf_file).load())}
    return [text for one in find_file_warnings(settings) if (text := str(one)) not in before]


def judge_file(evidence: Evidence) -> Outcome:
    """Return whether the change of a file was made, by its content."""
    try:
        digest = hash_content(Path(evidence["file"]).read_bytes())
    except FileNotFoundError:
        digest = ""
    except OSError:
        return "unknown"
    if digest == evidence["after"]:
        return "made"
    return "not made" if digest == evidence["before"] else "unknown"
