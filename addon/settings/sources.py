"""The operators' files as bytes: each is read once it stands still, and remembered until it says something else.

Each file is judged by itself, so that one that is always being written holds up no other. Source:
docs/configuration.md, "Edits".
"""

import errno
import hashlib
import os
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

from addon.settings.files import SettingsError, absolute

type Stamp = tuple[int, int, int] | None
"""What changes with a file: None where there is none."""

OVERDUE_S: Final = 1.5
"""How long a file may be in motion before it is read all the same."""

MAX_FILE_BYTES: Final = 16 << 20

_NO_OVERLAY: Mapping[Path, str] = MappingProxyType({})
_MISSING: Final = FileNotFoundError(errno.ENOENT, "No such file or directory")
_UNSETTLED: Final = (-1, -1, -1)
"""The stamp of no file: what was read in motion is read again once it stands still."""
_TRIES: Final = 3


def is_due(read: Stamp, before: Stamp, now: Stamp, changing_s: float) -> bool:
    """Return whether a file is to be read: it is not as it was read, and stands still, or has not for too long.

    An editor may empty a file before it writes it; a workspace without its keys would load, and lock out. A file that
    is gone in motion may be about to come back. One that the look before found as it was read is no older than that
    look, however late this one is.
    """
    is_overdue = changing_s >= OVERDUE_S and before != read and now is not None
    return now != read and (now == before or is_overdue)


@dataclass(frozen=True, slots=True)
class Content:
    """What a file said when it was read: never shown, it may be a secret. ``version`` changes with it."""

    stamp: Stamp
    said: bytes | OSError = field(repr=False)
    mode: int = 0
    version: int = 0

    @property
    def is_missing(self) -> bool:
        return isinstance(self.said, FileNotFoundError)

    def same_as(self, other: Self) -> bool:
        """Return whether both said the same."""
        if isinstance(self.said, OSError) or isinstance(other.said, OSError):
            return getattr(self.said, "errno", None) == getattr(other.said, "errno", None)
        return (self.said, self.mode) == (other.said, other.mode)


@dataclass(slots=True)
class _Watched:
    """One file: its content, how the last look found it, and when a look last found it as it was read.

    ``previous`` is what it said before it was read in motion.
    """

    content: Content
    before: Stamp
    same_at_s: float | None = None
    previous: Content | None = None


class Sources:
    """What the settings are made of: each file that was asked for, and the folders that list others.

    A file is read when it is first asked for; later edits are seen by ``look``. ``overlay`` maps files to texts that
    replace what is on disk.
    """

    def __init__(self, overlay: Mapping[Path, str] = _NO_OVERLAY) -> None:
        self._overlay = {absolute(file): text.encode() for file, text in overlay.items()}
        self._files: dict[Path, _Watched] = {}
        self._folders: dict[Path, set[str] | None] = {}
        self._looked_at_s: float | None = None
        self._versions = 0
        self._asked: dict[Path, int] = {}
        self._digest = hashlib.sha256()

    # Reading.

    @contextmanager
    def tracing(self) -> Iterator[dict[Path, int]]:
        """Give the version of each file that is asked for within the context, for ``is_current``."""
        asked = self._asked = {}
        self._digest = hashlib.sha256()
        try:
            yield asked
        finally:
            self._asked = {}

    @property
    def digest(self) -> bytes:
        """What changes with any text that was asked for since ``tracing`` began, secrets excepted."""
        return self._digest.digest()

    def is_current(self, asked: Mapping[Path, int]) -> bool:
        """Return whether these files still say what they said at these versions."""
        versions = {path: self._files[path].content.version for path in asked if path in self._files}
        return versions == asked

    def list_toml(self, folder: Path) -> list[Path]:
        """Return the ``*.toml`` files of a folder by name, hidden ones left out. Raises ``SettingsError``."""
        folder = absolute(folder)
        if folder not in self._folders:
            self._folders[folder] = _toml_names(folder)
        names = self._folders[folder]
        if names is None:
            raise SettingsError(folder, "", "no such folder")
        files = {folder / name for name in names} | set(self._watched_in(folder))
        there = {
            file for file in files if file not in self._files or not self._files[file].content.is_missing
        }
        return sorted(there | {file for file in self._overlay if file.parent == folder})

    def read(self, file: Path) -> bytes:
        """Return the content of a file. Raises ``SettingsError``."""
        file = absolute(file)
        said = self._overlay[file] if file in self._overlay else self._find(file).said
        if isinstance(said, OSError):
            raise SettingsError(file, "", _why(said))
        self._digest.update(b"%s\0%d\0%s" % (file.name.encode(), len(said), said))
        return said

    def read_secret(self, file: Path, *, owner_only: bool = False) -> bytes:
        """Return the content of a secret's file, kept out of the digest. Raises ``OSError``.

        With ``owner_only``, also where others than the file's owner may do anything with it.
        """
        content = self._find(absolute(file))
        if isinstance(content.said, OSError):
            raise content.said
        if owner_only and content.mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise PermissionError(errno.EPERM, "others than its owner may use it; set its mode to 600")
        return content.said

    def read_text(self, file: Path) -> str:
        """Return the content of a text file, its line ends as they are. Raises ``SettingsError``."""
        return decode(self.read(file), file)

    def read_toml(self, file: Path) -> dict[str, Any]:
        """Return the tables of a TOML file. Raises ``SettingsError`` with the line at fault."""
        return parse_toml(self.read(file), file)

    def _find(self, file: Path) -> Content:
        if file not in self._files:
            found = read_whole(file)
            # It may have been written this very moment, so the looks read it once more.
            self._files[file] = _Watched(self._versioned(found, _UNSETTLED), found.stamp)
        content = self._files[file].content
        self._asked[file] = content.version
        return content

    # Looking.

    def look(self, now_s: float) -> bool:
        """Read what is due; return whether anything says something else than before. ``now_s`` never goes back."""
        changed = [self._look_into(folder) for folder in self._folders]
        changed += [self._look_at(path, watched, now_s) for path, watched in self._files.items()]
        self._looked_at_s = now_s
        return any(changed)

    def revert(self, files: Iterable[Path]) -> bool:
        """Let those of ``files`` that were read in motion say what they said before; return whether any was."""
        reverted = False
        for watched in [self._files[file] for file in files if file in self._files]:
            if watched.previous:
                watched.content, watched.previous = replace(watched.previous, stamp=_UNSETTLED), None
                reverted = True
        return reverted

    def forget_others(self, files: set[Path]) -> None:
        """Watch no more than ``files`` and what the folders list."""
        for file in [one for one in self._files if one not in files]:
            if file.name not in (self._folders.get(file.parent) or ()):
                del self._files[file]

    def _look_into(self, folder: Path) -> bool:
        before, names = self._folders[folder], _toml_names(folder)
        self._folders[folder] = names
        for file in (folder / name for name in (names or set()) - (before or set())):
            # A new file was missing at the last look, and is read like any other once it stands still.
            if file not in self._files:
                self._files[file] = _Watched(Content(None, _MISSING), None, self._looked_at_s)
        return names != before

    def _look_at(self, path: Path, watched: _Watched, now_s: float) -> bool:
        before, now = watched.before, stamp_of(path)
        watched.before = now
        if now == watched.content.stamp or watched.same_at_s is None:
            watched.same_at_s = now_s
        if not is_due(watched.content.stamp, before, now, now_s - watched.same_at_s):
            return False
        found = read_whole(path)
        if now == before != found.stamp:
            return False  # It was written while it was read.
        return self._take(watched, found, now_s, is_still=now == before)

    def _take(self, watched: _Watched, found: Content, now_s: float, *, is_still: bool) -> bool:
        content, watched.same_at_s, watched.previous = watched.content, now_s, None
        stamp = found.stamp if is_still else _UNSETTLED
        if found.same_as(content):
            watched.content = replace(content, stamp=stamp)
            return False
        watched.content = self._versioned(found, stamp)
        watched.previous = None if is_still else content
        return True

    def _versioned(self, found: Content, stamp: Stamp) -> Content:
        self._versions += 1
        return replace(found, stamp=stamp, version=self._versions)

    def _watched_in(self, folder: Path) -> Iterator[Path]:
        # proxy.conf may stand in the same folder.
        return (file for file in self._files if file.parent == folder and file.suffix == ".toml")


def decode(said: bytes, file: Path) -> str:
    """Return the bytes of ``file`` as text. Raises ``SettingsError``."""
    try:
        return said.decode()
    except UnicodeDecodeError as error:
        raise SettingsError(file, "", f"is not UTF-8 at byte {error.start}") from None


def parse_toml(said: bytes, file: Path) -> dict[str, Any]:
    """Return the tables that the bytes of ``file`` hold. Raises ``SettingsError`` with the line at fault."""
    try:
        return tomllib.loads(decode(said, file))
    except ValueError as error:
        raise SettingsError(file, "", f"is not TOML: {error}") from None
    except RecursionError:
        raise SettingsError(file, "", "is not TOML: nested too deeply") from None


def read_whole(path: Path) -> Content:
    """Return what a file says, whole: once more where it was written in between."""
    for _ in range(_TRIES):
        before = stamp_of(path)
        found = _read_once(path, before)
        if stamp_of(path) == before:
            return found
    return replace(found, stamp=_UNSETTLED)


def _read_once(path: Path, stamp: Stamp) -> Content:
    try:
        with path.open("rb") as stream:
            said = stream.read(MAX_FILE_BYTES + 1)
            mode = os.fstat(stream.fileno()).st_mode
    except OSError as error:
        return Content(stamp, error)
    if len(said) > MAX_FILE_BYTES:
        return Content(stamp, OSError(errno.EFBIG, f"larger than {MAX_FILE_BYTES} bytes"))
    return Content(stamp, said, mode)


def stamp_of(path: Path) -> Stamp:
    """Return what changes with a file, its mode included."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    # The time of the last change of any kind: a mode set right is one too, and leaves the content as it is.
    return (found.st_ctime_ns, found.st_size, found.st_ino)


def _toml_names(folder: Path) -> set[str] | None:
    # Editors keep their lock and swap files next to the real ones under hidden names.
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    return {name for name in names if name.endswith(".toml") and not name.startswith(".")}


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return (error.strerror or "can't be read").lower()
