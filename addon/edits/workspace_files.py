"""Workspace files that an edit changes: found and read under the lock of their folder, and written only if they load.

An edit has two steps: a ``Plan``, which can be shown, and its application. A writer that does not take the lock, such
as a text editor, is noticed: the edit is refused.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from addon.runtime.atomic_files import FileChangedError, remove_abandoned, replace_unchanged
from addon.runtime.folder_lock import locked
from addon.settings.builder import CheckedFile
from addon.settings.errors import describe_error, shorten_name, suggest_name
from addon.settings.file_content import decode_text, make_absolute, parse_toml
from addon.settings.settings import SettingsFiles, load_conf
from addon.settings.sources import Sources
from addon.settings.toml_folders import TomlFolders
from addon.settings.validation import validate
from addon.settings.value_types import NAME, NAME_IS
from addon.settings.workspace_schema import KeyTable, WorkspaceTable
from addon.text.masking import mask_credentials

type Write = Callable[[Path, str, bytes | None], None]
"""Writes a file whose content is still ``before``; None: it does not exist. Raises ``EditError``."""

CHANGED: Final = (
    "the file has changed since this form was opened, so nothing was written; open the form again"
)


class EditError(Exception):
    """The reason why an edit is refused, in one line. Nothing was written, unless the line says so."""


class UnknownWorkspaceError(EditError):
    """There is no file of this workspace."""


class ExistingWorkspaceError(EditError):
    """There is a file of this workspace already."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An edit of one file that is not made yet.

    | field | is |
    |---|---|
    | ``before`` | the content that the edit was planned for; None when there is no file |
    | ``after`` | the text that the file will have |
    | ``summary`` | one line that says what the edit does |
    """

    file: Path
    before: bytes | None = field(repr=False)
    after: str = field(repr=False)
    summary: str

    @property
    def text_before(self) -> str:
        return (self.before or b"").decode(errors="replace")

    @property
    def digest(self) -> str:
        """The digest of the content before. It differs for a file that changed since an earlier plan."""
        return "" if self.before is None else hash_content(self.before)

    @property
    def changes_nothing(self) -> bool:
        """Whether the file has this text already."""
        return self.before is not None and self.before == self.after.encode()

    def check(self, files: SettingsFiles) -> CheckedFile:
        """Return the file as it would load. Raises ``SettingsError`` when nothing loads."""
        return files.fork({self.file: self.after}).check_workspace(self.file)

    def apply(self, files: SettingsFiles, write: "Write | None" = None) -> None:
        """Make the edit with ``write``, into the file unless given. The caller has the lock.

        Raises ``EditError``, or ``SettingsError`` where the new text does not load.
        """
        if error := self.check(files).error:
            raise error
        (write or write_unchanged)(self.file, self.after, self.before)


def hash_content(content: bytes) -> str:
    """Return the digest of a file's content."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class WorkspaceFile:
    """A workspace file as it was read. ``table`` is checked; ``raw`` is the same table as TOML has it."""

    file: Path
    content: bytes
    text: str
    table: WorkspaceTable
    raw: Mapping[str, Any]

    @property
    def id(self) -> str:
        return self.file.stem

    def find_key(self, key_id: str) -> tuple[int, KeyTable]:
        """Return a key with its index. Raises ``EditError``."""
        for index, key in enumerate(self.table.keys):
            if key.id == key_id:
                return index, key
        raise unknown_key_error(self.id, key_id, (key.id for key in self.table.keys))


def unknown_workspace_error(workspace: str, known: Iterable[str]) -> UnknownWorkspaceError:
    """Return the error of a workspace that does not exist. It suggests the nearest name."""
    return UnknownWorkspaceError(
        f'unknown workspace "{shorten_name(workspace)}"{suggest_name(workspace, known)}'
    )


def unknown_key_error(workspace: str, key_id: str, known: Iterable[str]) -> EditError:
    """Return the error of a key that does not exist. It suggests the nearest name."""
    return EditError(f'workspace {workspace} has no key "{key_id}"{suggest_name(key_id, known)}')


@contextmanager
def lock_workspaces(conf_file: Path) -> Iterator[Path]:
    """Lock the folder of workspace files against other edits, and return it. Raises ``SettingsError`` or OSError.

    Before the first start, make it.
    """
    folder = load_conf(conf_file).paths.workspaces
    folder.mkdir(exist_ok=True)
    with locked(folder):
        remove_abandoned(folder)
        yield folder


def find_file(folder: Path, workspace: str) -> Path:
    """Return the file of a workspace. Raises ``UnknownWorkspaceError``."""
    folder = make_absolute(folder)
    names = TomlFolders().list_names(folder)
    if f"{workspace}.toml" not in names:
        raise unknown_workspace_error(workspace, (Path(name).stem for name in names))
    return folder / f"{workspace}.toml"


def read_file(folder: Path, workspace: str) -> WorkspaceFile:
    """Return the file of a workspace. Raises ``EditError``, or ``SettingsError`` where it does not load."""
    file = find_file(folder, workspace)
    content = Sources().read(file)
    raw = parse_toml(content, file)
    return WorkspaceFile(file, content, decode_text(content, file), validate(WorkspaceTable, file, raw), raw)


def plan_edit(read: WorkspaceFile, edit: Callable[[str], str], summary: str) -> Plan:
    """Plan to replace a file by its edited text. Raises ``EditError`` for a text that can't be edited."""
    try:
        text = edit(read.text)
    except ValueError as error:
        raise EditError(f"the workspace file {error}") from None
    return Plan(read.file, read.content, text, summary)


def plan_new_file(folder: Path, workspace: str, text: str, summary: str) -> Plan:
    """Plan the file of a new workspace. Raises ``EditError``."""
    check_new_workspace(folder, workspace)
    return Plan(folder / f"{workspace}.toml", None, text, summary)


def check_new_workspace(folder: Path, workspace: str) -> None:
    """Raise ``EditError`` where ``workspace`` exists or can't be a name."""
    if f"{workspace}.toml" in TomlFolders().list_names(make_absolute(folder)):
        raise ExistingWorkspaceError(f'workspace "{workspace}" already exists')
    check_name(workspace, "a workspace")


def check_name(name: str, noun: str) -> None:
    """Raise ``EditError`` where ``name`` can't be the id of ``noun``."""
    if mask_credentials(name) != name:
        raise EditError(f"{noun} can't have a name that looks like a credential")
    if not NAME.fullmatch(name):
        raise EditError(f'"{name}" can\'t name {noun}: it must be {NAME_IS}')


def write_unchanged(file: Path, text: str, before: bytes | None) -> None:
    """Write a file whose content is still ``before``; None: it does not exist. Raises ``EditError``."""
    try:
        replace_unchanged(file, text, before)
    except FileChangedError as error:
        raise EditError(describe_error(error)) from None
