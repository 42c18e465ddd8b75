"""The operators' files as bytes. A file is read when it no longer changes, and kept until its content changes.

Each file is judged by itself: a file that changes all the time delays no other. Source: docs/configuration.md, "Edits".
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from addon.settings.errors import SettingsError
from addon.settings.file_content import (
    NO_STAMP,
    FileContent,
    Stamp,
    decode_text,
    describe_error,
    make_absolute,
    parse_toml,
    read_content,
    read_stamp,
)
from addon.settings.toml_folders import TomlFolders

OVERDUE_S: Final = 1.5
"""A file that changes for longer than this is read nevertheless."""

type FileCopy = tuple[bytes, int]
"""The content of a file, and its mode."""

_NO_OVERLAY: Mapping[Path, str] = MappingProxyType({})
_MISSING: Final = FileNotFoundError(errno.ENOENT, "No such file or directory")


def is_due(read: Stamp, before: Stamp, now: Stamp, changing_s: float) -> bool:
    """Return whether to read a file: it differs from what was read, and two looks agree or it is overdue.

    ``read`` is the stamp of the last read; ``before`` and ``now`` are those of the last two looks.

    - Two looks must agree because an editor may empty a file before it writes it. A workspace without its keys would
      load, and lock out its clients.
    - A file that is gone is never overdue: it may come back.
    - A file that was unchanged at the last look is not overdue either. It changed after that look, even if this look
      is late.
    """
    is_overdue = changing_s >= OVERDUE_S and before != read and now is not None
    return now != read and (now == before or is_overdue)


@dataclass(slots=True)
class _WatchedFile:
    """A file: its content, the stamp of the last look, and the time of the last look that found it unchanged.

    ``previous`` is the content before the file was read while it changed. ``readable`` is the last content that could
    be read, set while it can't.
    """

    content: FileContent
    before: Stamp
    same_at_s: float | None = None
    previous: FileContent | None = None
    readable: FileContent | None = None


class Sources:
    """The files that the settings are read from, and the folders that list such files.

    The first request for a file reads it; later edits are found by ``look``. ``overlay`` maps files to texts that
    replace the files on disk. With ``copies``, no other file exists, and the disk is never read.
    """

    def __init__(
        self, overlay: Mapping[Path, str] = _NO_OVERLAY, *, copies: Mapping[Path, FileCopy] | None = None
    ) -> None:
        self.is_copy = copies is not None
        self._overlay = {make_absolute(file): text.encode() for file, text in overlay.items()}
        self._files: dict[Path, _WatchedFile] = {}
        self._folders = TomlFolders()
        self._looked_at_s: float | None = None
        self._texts: set[Path] = set()
        self._known: Mapping[Path, FileContent] = {}
        self._last_version = 0
        self._versions_read: dict[Path, int] = {}
        self._digest = hashlib.sha256()
        for file, (content, mode) in (copies or {}).items():
            self._files[file] = _WatchedFile(FileContent(None, content, mode), None)

    def fork(self, overlay: Mapping[Path, str] = _NO_OVERLAY) -> "Sources":
        """Return sources that read the files as they are now, and read only what changed since the last look.

        They are for one short use: nothing of it comes back into these sources.
        """
        fork = Sources(overlay)
        fork._folders = self._folders.fork()
        fork._known = {path: watched.content for path, watched in self._files.items()}
        fork._last_version = self._last_version
        return fork

    # Reading.

    @contextmanager
    def record_versions(self) -> Iterator[dict[Path, int]]:
        """Record the version of each file that is read within the context, for ``is_current``."""
        versions = self._versions_read = {}
        self._digest = hashlib.sha256()
        try:
            yield versions
        finally:
            self._versions_read = {}

    @property
    def digest(self) -> bytes:
        """The digest of all that was read since ``record_versions`` began, secrets excepted."""
        return self._digest.digest()

    @property
    def texts(self) -> frozenset[Path]:
        """The files that were read as texts of operators, and not as secrets."""
        return frozenset(self._texts)

    def find_changed_at(self, file: Path) -> datetime | None:
        """Return when a file or its mode changed, as the last look found it; None for no file. Any thread may ask."""
        watched = self._files.get(file)
        stamp = watched.before if watched else None
        return datetime.fromtimestamp(stamp[0] / 1e9, UTC) if stamp else None

    def is_current(self, versions: Mapping[Path, int]) -> bool:
        """Return whether all these files still have these versions."""
        for path, version in versions.items():
            if path in self._overlay:
                return False
            if path not in self._files and path in self._known:
                self._find(path)
            if path not in self._files or self._files[path].content.version != version:
                return False
        return True

    def list_toml(self, folder: Path) -> list[Path]:
        """Return the ``*.toml`` files of a folder by name, as ``TomlFolders`` does. Raises ``SettingsError``."""
        folder = make_absolute(folder)
        files = {*self._folders.list_files(folder), *self._find_watched(folder)}
        existing = {
            file for file in files if file not in self._files or not self._files[file].content.is_missing
        }
        existing.update(file for file in self._overlay if file.parent == folder)
        return sorted(existing, key=str)

    def is_folder(self, path: Path) -> bool:
        """Return whether ``path`` is a folder, and watch it. In a copy, where no folder exists, return True."""
        return self.is_copy or isinstance(self._find(make_absolute(path)).content, IsADirectoryError)

    def exists(self, file: Path) -> bool:
        """Return whether there is such a file, and watch for it."""
        file = make_absolute(file)
        return file in self._overlay or not self._find(file).is_missing

    def read(self, file: Path) -> bytes:
        """Return the content of a file. Raises ``SettingsError``."""
        file = make_absolute(file)
        content = self._overlay[file] if file in self._overlay else self._find(file).content
        if isinstance(content, OSError):
            raise SettingsError(file, "", describe_error(content))
        self._texts.add(file)
        self._digest.update(b"%s\0%d\0%s" % (os.fsencode(file.name), len(content), content))
        return content

    def peek(self, file: Path) -> bytes | None:
        """Return the content of a file of ``list_toml``, None where it can't be read. Leave it out of the digest."""
        content = self._overlay[file] if file in self._overlay else self._find(file).content
        return content if isinstance(content, bytes) else None

    def read_secret(self, file: Path, *, owner_only: bool = False) -> bytes:
        """Return the content of a secret's file, which stays out of the digest. Raises ``OSError``.

        With ``owner_only``, raise it also when anyone but the owner has any access to the file.
        """
        found = self._find(make_absolute(file))
        if isinstance(found.content, OSError):
            raise found.content
        if owner_only and found.mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise PermissionError(errno.EPERM, "users other than its owner have access; set its mode to 600")
        return found.content

    def read_text(self, file: Path) -> str:
        """Return the content of a text file, its line ends unchanged. Raises ``SettingsError``."""
        return decode_text(self.read(file), file)

    def read_toml(self, file: Path) -> dict[str, Any]:
        """Return the tables of a TOML file. Raises ``SettingsError`` with the number of the wrong line."""
        return parse_toml(self.read(file), file)

    def copy(self, files: Iterable[Path], *, only_existing: bool = False) -> dict[Path, FileCopy]:
        """Return the last content of ``files`` that could be read. Files that never could be read are left out.

        With ``only_existing``, leave out also the files that can't be read now.
        """
        copies = {}
        for file in files:
            if watched := self._files.get(file):
                found = watched.content if only_existing else watched.readable or watched.content
                if isinstance(found.content, bytes):
                    copies[file] = found.content, found.mode
        return copies

    def _find(self, file: Path) -> FileContent:
        if file not in self._files:
            self._files[file] = self._begin_to_watch(file)
        content = self._files[file].content
        self._versions_read[file] = content.version
        return content

    def _begin_to_watch(self, file: Path) -> _WatchedFile:
        known = self._known.get(file)
        if known and known.stamp == read_stamp(file):
            return _WatchedFile(known, known.stamp)
        found = FileContent(None, _MISSING) if self.is_copy else read_content(file)
        if known and found.equals(known):
            return _WatchedFile(replace(known, stamp=NO_STAMP), found.stamp)
        # An editor may be writing the file right now, so the next looks read it once more.
        return _WatchedFile(self._add_version(found, NO_STAMP), found.stamp)

    # Looking for changes.

    def look(self, now_s: float) -> bool:
        """Read the files that are due; return whether any content changed. ``now_s`` must never decrease."""
        changed = [self._look_into(folder) for folder in self._folders]
        changed += [self._look_at(path, watched, now_s) for path, watched in self._files.items()]
        self._looked_at_s = now_s
        return any(changed)

    def revert(self, files: Iterable[Path]) -> bool:
        """Restore the previous content of those ``files`` that were read while they changed.

        Return whether there was such a file.
        """
        reverted = False
        for watched in [self._files[file] for file in files if file in self._files]:
            if watched.previous:
                watched.content, watched.previous = replace(watched.previous, stamp=NO_STAMP), None
                reverted = True
        return reverted

    def forget_others(self, files: set[Path]) -> None:
        """Stop watching all but ``files`` and the files that the folders list."""
        for file in [one for one in self._files if one not in files]:
            if not self._folders.has(file):
                del self._files[file]

    def _look_into(self, folder: Path) -> bool:
        new_files = self._folders.look(folder)
        for file in new_files or ():
            # A new file counts as missing until now. Like any other, it is read when it no longer changes.
            if file not in self._files:
                missing = FileContent(None, _MISSING)
                self._files[file] = _WatchedFile(missing, None, self._looked_at_s)
        return new_files is not None

    def _look_at(self, path: Path, watched: _WatchedFile, now_s: float) -> bool:
        before, now = watched.before, read_stamp(path)
        watched.before = now
        if now == watched.content.stamp or watched.same_at_s is None:
            watched.same_at_s = now_s
        if not is_due(watched.content.stamp, before, now, now_s - watched.same_at_s):
            return False
        found = read_content(path)
        if now == before != found.stamp:
            return False  # It changed during the read.
        return self._set_content(watched, found, now_s, is_settled=now == before)

    def _set_content(
        self, watched: _WatchedFile, found: FileContent, now_s: float, *, is_settled: bool
    ) -> bool:
        """Keep what was read; return whether it differs from the content before."""
        content, watched.same_at_s, watched.previous = watched.content, now_s, None
        stamp = found.stamp if is_settled else NO_STAMP
        if found.equals(content):
            watched.content = replace(content, stamp=stamp)
            return False
        watched.readable = (watched.readable or content) if isinstance(found.content, OSError) else None
        watched.content = self._add_version(found, stamp)
        watched.previous = None if is_settled else content
        return True

    def _add_version(self, found: FileContent, stamp: Stamp) -> FileContent:
        self._last_version += 1
        return replace(found, stamp=stamp, version=self._last_version)

    def _find_watched(self, folder: Path) -> Iterator[Path]:
        # The suffix is checked because proxy.conf may be in the same folder.
        toml = (file for file in self._files if str(file).endswith(".toml"))
        return (file for file in toml if os.path.dirname(str(file)) == str(folder))
