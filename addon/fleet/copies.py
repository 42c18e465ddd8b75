"""The copies of the workspace files in the ledger, which this machine is served on, also while the ledger is away."""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Final

from addon.edits.workspace_files import hash_content
from addon.fleet.tables import Version, read_digests, read_texts, read_version
from addon.runtime.atomic_files import write_atomically
from addon.runtime.folder_lock import locked
from addon.settings.errors import SettingsError
from addon.settings.value_types import NAME
from addon.store.money.ledger import Ledger, LedgerPlace

_STATE: Final = ".ledger.json"


class Copies:
    """The files in ``folder``. Edits of them by other programs are undone at the next start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read_state(self) -> Version | None:
        """Return which state of the ledger the files are copies of, None where that is not known."""
        with suppress(OSError, ValueError, TypeError):
            return Version(*json.loads((self.folder / _STATE).read_text(encoding="utf-8")))
        return None

    def confirm(self, version: Version) -> None:
        """Note that the ledger is in the state ``version`` now, if the copies are those of it. Raises OSError."""
        if self.read_state() == version:
            os.utime(self.folder / _STATE)

    def find_age_s(self) -> float | None:
        """Return how long ago the copies were last known to be those of the ledger; None where that is not known."""
        with suppress(OSError):
            return max(0.0, time() - (self.folder / _STATE).stat().st_mtime)
        return None

    def find_missing(self, digests: Mapping[str, str]) -> list[str]:
        """Return the ids of the files whose copy is missing or another text. Raises OSError."""
        return [name for name, digest in digests.items() if self._digest(name) != digest]

    def write(self, version: Version, digests: Mapping[str, str], texts: Mapping[str, str]) -> bool:
        """Make the copies those of ``version``, unless a later one is here. Return whether they are. Raises OSError."""
        self.make_folder()
        with locked(self.folder):
            state = self.read_state()
            if state and state.ledger == version.ledger and state.version > version.version:
                return False
            self._forget_state()
            for name, text in texts.items():
                self._put(name, text)
            self._remove(set(self.list_ids()).difference(digests))
            self._note(version)
        return True

    def put(self, version: Version, texts: Mapping[str, str | None]) -> None:
        """Write what was just committed as ``version``; None removes. The caller has the lock. Raises OSError."""
        state = self.read_state()
        is_next = state and (state.ledger, state.version + 1) == (version.ledger, version.version)
        self._forget_state()
        for name, text in texts.items():
            if text is None:
                self._remove([name])
            else:
                self._put(name, text)
        if is_next:
            self._note(version)

    def list_ids(self) -> list[str]:
        """Return the ids of the copies."""
        with suppress(FileNotFoundError):
            return sorted(file.stem for file in self.folder.glob("[!.]*.toml"))
        return []

    def make_folder(self) -> None:
        """Make the folder, which only its owner may read."""
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)

    def forget_lower(self, version: Version) -> None:
        """Forget which state is here: the ledger was restored from an earlier one."""
        state = self.read_state()
        if state and state.version > version.version:
            self._forget_state()

    def _digest(self, name: str) -> str | None:
        with suppress(FileNotFoundError):
            return hash_content(self._file(name).read_bytes())
        return None

    def _put(self, name: str, text: str) -> None:
        write_atomically(self._file(name), text)
        self._give(self._file(name))

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._file(name).unlink(missing_ok=True)

    def _note(self, version: Version) -> None:
        write_atomically(self.folder / _STATE, json.dumps(version))
        self._give(self.folder / _STATE)

    def _forget_state(self) -> None:
        # Without it, the next look makes all copies again: so those of a process that died half way are mended.
        (self.folder / _STATE).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise SettingsError(
                self.folder, "", f'the ledger has a file of "{name}", which is no name of a workspace'
            )
        return self.folder / f"{name}.toml"

    def _give(self, file: Path) -> None:
        """Give what root has made to the owner of the folder: the gateway must be able to read it."""
        if os.geteuid() == 0:
            found = self.folder.stat()
            os.chown(file, found.st_uid, found.st_gid, follow_symlinks=False)


def refresh(place: LedgerPlace, copies: Copies, *, must_check: bool = False) -> None:
    """Make the copies those of the ledger now; with ``must_check``, compare each. Raises StoreUnavailable, OSError."""
    with place.read() as ledger:
        version = read_version(ledger)
        if copies.read_state() == version and not must_check:
            copies.confirm(version)
            return
        digests, texts = read_missing(ledger, copies)
    copies.forget_lower(version)
    copies.write(version, digests, texts)


def read_missing(ledger: Ledger, copies: Copies) -> tuple[dict[str, str], dict[str, str]]:
    """Return the digests of all files in the ledger, and the texts of those that are not here."""
    digests = read_digests(ledger)
    missing = copies.find_missing(digests)
    return digests, read_texts(ledger, missing) if missing else {}
