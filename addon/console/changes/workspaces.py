"""The forms of workspaces: create one, change its settings, and edit its file as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from addon.console.changes.field import DIGEST, Field, FieldErrors, make_fields, show_value
from addon.console.changes.file_change import FileChange
from addon.console.changes.form import Change, EditedFiles, Form, RequestedChange
from addon.edits.file_text import MAX_TEXT_CHARS, find_lines, plan_text, read_editable
from addon.edits.hidden_values import HiddenValueError, mask_values
from addon.edits.typed_settings import WORKSPACE_SETTINGS, parse_text
from addon.edits.workspace_files import (
    EditError,
    WorkspaceFile,
    check_new_workspace,
    find_file,
    hash_content,
    read_file,
)
from addon.edits.workspaces import SETTABLE, plan_new_workspace, plan_workspace_changes
from addon.settings.errors import SettingsError
from addon.settings.settings import Settings

_NO_KEY: Final = "The workspace has no key yet. Create one next."
_DAMAGED: Final = (
    "The file has bytes that are not UTF-8. They are shown as \ufffd, and are replaced when you confirm."
)


def suggest_models(settings: Settings) -> Sequence[str]:
    """Return the slugs of the models that are served."""
    return sorted(slug for slug, model in settings.models.items() if model.active)


def read_for_form(asked: RequestedChange) -> WorkspaceFile:
    """Return the file of the workspace of a form. Raises ``EditError``."""
    try:
        return read_file(asked.files.folder, asked.workspace)
    except SettingsError as error:
        raise EditError(f"the file does not load; mend it as text first: {error}") from None


def read_digest(asked: RequestedChange) -> Mapping[str, str]:
    """Return the digest of the file, as the text of its hidden field. Raises ``EditError``."""
    return {DIGEST.name: hash_content(read_for_form(asked).content)}


def _suggest(settings: Settings) -> Mapping[str, Sequence[str]]:
    models = suggest_models(settings)
    return dict.fromkeys(("default_model", "fallback_model", "context_fallback_model"), models)


def _plan_create(asked: RequestedChange) -> Change:
    workspace = asked.workspace
    try:
        check_new_workspace(asked.files.folder, workspace)
    except EditError as error:
        raise FieldErrors({"workspace": str(error)}) from None
    plan = plan_new_workspace(asked.files.folder, workspace, {name: asked.values[name] for name in SETTABLE})
    return FileChange(plan, None, (), [_NO_KEY])


def _read_settings(asked: RequestedChange) -> Mapping[str, str]:
    read = read_for_form(asked)
    shown = {name: show_value(read.raw.get(name)) for name in SETTABLE}
    return {**shown, DIGEST.name: hash_content(read.content)}


def _plan_set(asked: RequestedChange) -> Change:
    changes = asked.find_changes(SETTABLE)
    if "name" in changes and changes["name"] is None:
        raise FieldErrors({"name": "is needed"})
    plan = plan_workspace_changes(asked.files.folder, asked.workspace, changes)
    return FileChange(asked.require_same_file(plan), None)


@dataclass(frozen=True)
class TextChange(FileChange):
    """A change of the whole text. It has all errors of the text, with their lines."""

    def check(self, files: EditedFiles) -> Sequence[str]:
        self._raise_with_lines(self.find_errors(files))
        checked = self.plan.check(files.loaded)
        if checked.error:
            self._raise_with_lines(checked.error.all)
        return self.find_warnings(checked, files)

    def _raise_with_lines(self, errors: Sequence[SettingsError]) -> None:
        if errors:
            lines = find_lines(self.plan.after, [one.key for one in errors])
            raise FieldErrors({"text": "\n".join(map(_describe, errors, lines))})


def _describe(error: SettingsError, line: int | None) -> str:
    where = [f"line {line}"] * (line is not None) + [error.key] * bool(error.key)
    return ": ".join([*where, error.reason])


def _read_text(asked: RequestedChange) -> Mapping[str, str]:
    shown = read_editable(asked.files.folder, asked.workspace)
    return {"text": shown.hidden.text, DIGEST.name: shown.digest}


def _plan_text(asked: RequestedChange) -> Change:
    shown = read_editable(asked.files.folder, asked.workspace)
    try:
        plan = plan_text(
            asked.files.folder, asked.workspace, asked.values["digest"] or "", asked.values["text"]
        )
    except HiddenValueError as error:
        raise FieldErrors({"text": str(error)}) from None
    return TextChange(plan, None, [_DAMAGED] if shown.is_damaged else ())


def require_workspace(asked: RequestedChange) -> Mapping[str, str]:
    """Return no texts. Raises ``EditError`` where the workspace does not exist."""
    find_file(asked.files.folder, asked.workspace)
    return {}


CREATE: Final = Form(
    action="workspaces create",
    title="Create a workspace",
    plan=_plan_create,
    names=(),
    fields=(
        Field(
            "workspace",
            "ID",
            parse_text,
            "Its name in URLs, files and the ledger, which never changes: letters, digits, dots, _ and -.",
            is_required=True,
        ),
        *make_fields(WORKSPACE_SETTINGS, is_new=True),
    ),
    intro="It begins without a key. If empty, its name is its id, and overage protection is on.",
    suggest=_suggest,
)
SET: Final = Form(
    action="workspaces set",
    title="Change the settings",
    plan=_plan_set,
    fields=(DIGEST, *make_fields(WORKSPACE_SETTINGS, is_new=False)),
    current=_read_settings,
    intro="An empty field removes the setting, so its default applies.",
    suggest=_suggest,
)
TEXT: Final = Form(
    action="workspaces edit",
    title="Edit the file as text",
    plan=_plan_text,
    fields=(
        DIGEST,
        Field(
            "text",
            "Text",
            hint="Hashes and secrets are not shown: (unchanged 1) keeps its value. You can move or remove such a line.",
            kind="textarea",
            is_required=True,
            max_chars=MAX_TEXT_CHARS,
            rows=32,
            mask=mask_values,
        ),
    ),
    current=_read_text,
    confirmation="Save the file",
    intro="The text is checked before it is saved. A file that does not load can be mended here.",
)
