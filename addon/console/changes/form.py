"""``Form``: a form as data, ``RequestedChange``: a form that was filled in, and ``Change``: a planned change."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from addon.console.changes.field import Field, find_changes
from addon.edits.diff import NO_KEY_YET, DiffLine
from addon.edits.recording import ChangeRecord
from addon.edits.toml_lines import Changes
from addon.edits.workspace_files import CHANGED, EditError, Plan, Write
from addon.settings.api_keys import hash_key
from addon.settings.settings import Settings, SettingsFiles


@dataclass(frozen=True, slots=True)
class EditedFiles:
    """The files that a change edits, and the settings in use. ``folder`` has the files of workspaces.

    ``loaded`` are the files that the settings were loaded from.
    """

    loaded: SettingsFiles
    folder: Path
    settings: Settings

    @property
    def conf_file(self) -> Path:
        return self.loaded.conf_file


@dataclass(frozen=True, slots=True)
class RequestedChange:
    """A change that a person asks for.

    | field | is |
    |---|---|
    | ``names`` | the variable parts of the URL, by name |
    | ``typed`` | the texts of the fields |
    | ``values`` | their values; None for an empty field |
    | ``new_key`` | the API key that is made with the change; None while it is only shown |
    | ``random_id`` | belongs to the change from the first time that it is shown: tried again, it is the same change |
    """

    files: EditedFiles
    form: "Form"
    names: Mapping[str, str]
    typed: Mapping[str, str] = field(default_factory=dict, repr=False)
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    new_key: str | None = field(default=None, repr=False)
    random_id: str | None = None

    @property
    def workspace(self) -> str:
        """The id of the workspace: from the URL, or from the field of a new one."""
        return self.names.get("workspace") or str(self.values.get("workspace") or "")

    @property
    def key_hash(self) -> str:
        """The hash of the new key, or what a difference has in its place."""
        return NO_KEY_YET if self.new_key is None else hash_key(self.new_key)

    def require_same_file(self, plan: Plan) -> Plan:
        """Return a plan of the file that the form was opened with. Raises ``EditError`` for another content."""
        if self.values.get("digest") != plan.digest:
            raise EditError(CHANGED)
        return plan

    def find_changes(self, names: Sequence[str]) -> Changes:
        """Return the new values of those fields ``names`` that differ from the current ones."""
        fields = [one for one in self.form.fields if one.name in names]
        return find_changes(fields, self.typed, self.values, self.form.current(self))


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """The outcome of a change: lines for people, and whether anything was changed."""

    lines: Sequence[str] = ()
    is_made: bool = True


class Change(Protocol):
    """A change that is not made yet."""

    @property
    def summary(self) -> str:
        """One line that says what it does."""

    @property
    def subject(self) -> str | None:
        """The id of the key that it is about, if there is one."""

    @property
    def notes(self) -> Sequence[str]:
        """Further sentences for the page with the difference."""

    @property
    def digest(self) -> str:
        """The digest of the content that it would change. The change is refused if the content has changed by then."""

    @property
    def lines(self) -> Sequence[DiffLine]:
        """The difference, without secrets."""

    def check(self, files: EditedFiles) -> Sequence[str]:
        """Return the warnings that it would bring. Raises as ``plan``, if it can't be made."""

    def record(self) -> ChangeRecord:
        """Return what the audit log and the other machines of a fleet are told of it."""

    def apply(self, files: EditedFiles, write: Write) -> AppliedChange:
        """Make it, a file with ``write``. The caller has the lock. Raises as ``plan``."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form.

    | field | is |
    |---|---|
    | ``action`` | the words of the command that does the same, such as ``keys set`` |
    | ``names`` | the names of the variable parts of its URL; the first is the workspace |
    | ``current`` | returns the texts of its fields now |
    | ``plan`` | returns the change |
    | ``intro`` | a sentence above the fields |
    | ``suggest`` | returns texts that may be typed, by the name of the field |
    | ``find_obstacle`` | returns why no change can be made, None when one can |
    | ``confirmation`` | the text of the button that makes the change; the title unless given |
    | ``makes_key`` | whether a new API key is made |
    | ``is_final`` | whether the change can't be taken back |
    """

    action: str
    title: str
    plan: Callable[[RequestedChange], Change]
    names: Sequence[str] = ("workspace",)
    fields: Sequence[Field] = ()
    current: Callable[[RequestedChange], Mapping[str, str]] = lambda _: {}
    intro: str = ""
    suggest: Callable[[Settings], Mapping[str, Sequence[str]]] = lambda _: {}
    find_obstacle: Callable[[Settings], str | None] = lambda _: None
    confirmation: str = ""
    makes_key: bool = False
    is_final: bool = False

    @property
    def path(self) -> str:
        """The beginning of its URL."""
        return f"/changes/{self.action.replace(' ', '/')}"

    def url(self, *names: str) -> str:
        """Return its URL."""
        return "/".join([self.path, *(quote(name, safe="") for name in names)])
