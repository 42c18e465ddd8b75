"""``push``, ``pull`` and ``diff`` of workspace files: a folder, such as one in git, beside the files in the ledger.

A folder that was pulled or pushed has a file ``.tollgate-pull`` with the digest of each file at that time. So a push
knows which files someone else has changed in the ledger since.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from addon.edits.workspace_files import EditError, check_name, hash_content
from addon.runtime.atomic_files import write_atomically
from addon.settings.file_content import read_content

BASE_FILE: Final = ".tollgate-pull"

type Kind = Literal["added", "changed", "removed"]


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A file that is not the same on both sides: its text in the ledger, and in the folder; None for no file."""

    workspace: str
    in_ledger: str | None
    in_folder: str | None

    @property
    def kind(self) -> Kind:
        """What a push would do."""
        if self.in_ledger is None:
            return "added"
        return "removed" if self.in_folder is None else "changed"


def read_folder(folder: Path) -> dict[str, str]:
    """Return the texts of the workspace files of a folder. Raises ``EditError`` for one that the ledger can't have."""
    if not folder.is_dir():
        raise EditError(f"{folder}: no such folder")
    texts = {}
    for file in sorted(folder.glob("[!.]*.toml")):
        check_name(file.stem, "a workspace")
        content = read_content(file).content
        if isinstance(content, OSError):
            raise EditError(f"{file}: {content.strerror}")
        try:
            texts[file.stem] = content.decode()
        except UnicodeDecodeError as error:
            raise EditError(f"{file}: is not UTF-8 at byte {error.start}") from None
        if "\0" in texts[file.stem]:
            raise EditError(f"{file}: has a NUL character")
    return texts


def compare(in_ledger: Mapping[str, str], in_folder: Mapping[str, str]) -> list[FileDifference]:
    """Return the files that differ, by name."""
    return [
        FileDifference(name, in_ledger.get(name), in_folder.get(name))
        for name in sorted({*in_ledger, *in_folder})
        if in_ledger.get(name) != in_folder.get(name)
    ]


def read_base(folder: Path) -> dict[str, str] | None:
    """Return the digests of the last pull or push, None where there was none. Raises ``EditError``."""
    try:
        found = json.loads((folder / BASE_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise EditError(f"{folder / BASE_FILE} can't be read; pull again") from None
    if not isinstance(found, dict):
        raise EditError(f"{folder / BASE_FILE} can't be read; pull again")
    return {str(name): str(digest) for name, digest in found.items()}


def find_changed_since(base: Mapping[str, str] | None, in_ledger: Mapping[str, str]) -> list[str]:
    """Return the workspaces whose file in the ledger is another one than at the last pull. Without a pull: all."""
    digests, base = {name: hash_content(text.encode()) for name, text in in_ledger.items()}, base or {}
    return sorted(name for name in {*digests, *base} if digests.get(name) != base.get(name))


def write_base(folder: Path, texts: Mapping[str, str]) -> None:
    """Note that the folder has these files of the ledger. Raises OSError."""
    digests = {name: hash_content(text.encode()) for name, text in sorted(texts.items())}
    write_atomically(folder / BASE_FILE, json.dumps(digests, indent=0) + "\n")
