"""The last good text of each workspace file, in memory and below var/ for the next process.

The texts are exact copies, so they hold no secret that is not in the operator's own file. Source:
docs/configuration.md, "Edits".
"""

from collections.abc import Collection
from contextlib import suppress
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Final

from addon.runtime.atomic_files import write_atomically
from addon.settings.file_content import FileContent, read_content, read_stamp

MAX_WRITES: Final = 8
"""The most texts that one call of ``keep`` writes, so that the next look for edits is not late."""

_SUFFIX: Final = ".toml"


class LastGood:
    """The last good texts, one for each workspace. They are read from ``folder``, and ``keep`` writes them there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._on_disk: dict[str, FileContent] = {}
        self._texts: dict[str, bytes] = {}
        with suppress(OSError):
            for file in folder.glob(f"[!.]*{_SUFFIX}"):
                self._read(file.stem)

    def fork(self) -> "LastGood":
        """Return the same texts, for a use that does not change these."""
        fork = copy(self)
        fork._on_disk, fork._texts = dict(self._on_disk), dict(self._texts)
        return fork

    def text(self, workspace: str) -> bytes | None:
        """Return the last text that loaded, None when there is none."""
        return self._texts.get(workspace)

    def take(self, workspace: str, text: bytes) -> None:
        """Set the last text that loaded."""
        self._texts[workspace] = text

    def forget_others(self, workspaces: Collection[str]) -> None:
        """Forget the texts of all other workspaces: their files were deleted."""
        for workspace in self._texts.keys() - set(workspaces):
            del self._texts[workspace]

    def look(self, workspaces: Collection[str]) -> bool:
        """Read these texts again. Return whether another process, such as ``keys revoke``, changed one."""
        changed = [self._read(workspace) for workspace in workspaces]
        return any(changed)

    def keep(self) -> None:
        """Write some of the texts that are not on disk yet, and remove those of deleted files. Raises OSError."""
        for workspace in self._on_disk.keys() - self._texts.keys():
            self._file(workspace).unlink(missing_ok=True)
            del self._on_disk[workspace]
        waiting = [
            workspace
            for workspace, text in self._texts.items()
            if workspace not in self._on_disk or self._on_disk[workspace].content != text
        ]
        # A text that another process or ``keys revoke`` wrote since is never replaced: ``look`` reads it.
        ours = (workspace for workspace in waiting if not self._is_changed(workspace))
        for workspace in islice(ours, MAX_WRITES):
            self.write(workspace, self._texts[workspace])

    def write(self, workspace: str, text: bytes) -> None:
        """Write one text, readable by its owner only. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self._file(workspace), text)
        self._on_disk[workspace] = FileContent(read_stamp(self._file(workspace)), text)

    def _is_changed(self, workspace: str) -> bool:
        known, stamp = self._on_disk.get(workspace), read_stamp(self._file(workspace))
        return stamp is not None and (known is None or stamp != known.stamp)

    def _read(self, workspace: str) -> bool:
        known = self._on_disk.get(workspace)
        if known and known.stamp == read_stamp(self._file(workspace)):
            return False
        found = read_content(self._file(workspace))
        if isinstance(found.content, OSError):
            return False
        self._on_disk[workspace] = found
        if known and known.content == found.content:
            return False
        self._texts[workspace] = found.content
        return True

    def _file(self, workspace: str) -> Path:
        return self._folder / f"{workspace}{_SUFFIX}"
