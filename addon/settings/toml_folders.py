"""``TomlFolders``: the folders that list files of operators, with the names that the last look found."""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from addon.settings.errors import SettingsError


class TomlFolders:
    """Folders and the names of their ``*.toml`` files, without hidden ones. The first request for a folder lists it."""

    def __init__(self) -> None:
        self._names: dict[Path, set[str] | None] = {}
        self._not_made: set[Path] = set()
        self._paths: dict[Path, Mapping[str, Path]] = {}

    def __iter__(self) -> Iterator[Path]:
        return iter(tuple(self._names))

    def fork(self) -> "TomlFolders":
        """Return folders that are listed again."""
        fork = TomlFolders()
        fork._paths = dict(self._paths)
        return fork

    def list_names(self, folder: Path) -> Collection[str]:
        """Return the names of the files of a folder. Raises ``SettingsError``.

        A folder that is not made yet has none: ``serve`` makes it at its first start. A folder that disappears is an
        error.
        """
        if folder not in self._names:
            self._names[folder] = _list_names(folder)
            if self._names[folder] is None and folder.parent.is_dir() and not folder.exists():
                self._not_made.add(folder)
        names = self._names[folder]
        if names is not None:
            self._not_made.discard(folder)
        elif folder in self._not_made:
            names = set()
        else:
            raise SettingsError(folder, "", "no such folder")
        return names

    def list_files(self, folder: Path) -> Collection[Path]:
        """Return the paths of the files of a folder. Raises ``SettingsError``.

        The paths are kept, because a path is slow to make and to hash.
        """
        names, known = self.list_names(folder), self._paths.get(folder, {})
        if known.keys() != names:
            known = self._paths[folder] = {name: known.get(name) or folder / name for name in names}
        return known.values()

    def look(self, folder: Path) -> Collection[Path] | None:
        """List a folder again, and return its new files; None where no name has changed."""
        before, names = self._names[folder], _list_names(folder)
        self._names[folder] = names
        if names == before:
            return None
        return [folder / name for name in (names or set()) - (before or set())]

    def has(self, file: Path) -> bool:
        """Return whether the last look found a file."""
        return file.name in (self._names.get(file.parent) or ())


def _list_names(folder: Path) -> set[str] | None:
    # Editors keep hidden lock and swap files next to the real ones.
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    return {name for name in names if name.endswith(".toml") and not name.startswith(".")}
