"""The version of the code on the disk: another one may be there after an upgrade, while the old one still runs."""

import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from addon.settings.policy_modules import OWN_MODULES

_ROOT: Final = Path(__file__).parents[2]
_SUFFIXES: Final = (".py", ".html")


def find_code_version(root: Path = _ROOT) -> str:
    """Return a digest of the names, sizes and times of change of the program's files."""
    digest = sha256()
    for file in sorted(_find_files(root)):
        # A file may be gone by now, and the lock file of an editor is a link to nothing.
        with suppress(OSError):
            status = os.stat(file)
            digest.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def _find_files(root: Path) -> Iterator[str]:
    """Yield the paths as text: each start of a gateway makes hundreds of them."""
    for folder, _, names in os.walk(root / "addon"):
        yield from (f"{folder}/{name}" for name in names if name.endswith(_SUFFIXES))
    # Operators' own policies may be in the same folder. Their edits take effect without a restart.
    yield from (f"{root}/policies/{name}.py" for name in OWN_MODULES)
