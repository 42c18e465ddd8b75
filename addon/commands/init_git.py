"""What git knows of the folder that ``tollgate init --from`` empties, and how to make its files as git has them."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_TIMEOUT_S: Final = 60.0


class Checkout:
    """A folder in a git checkout. Where git can't tell, ``is_known`` is false, and nothing counts as git's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.is_known = self._run("rev-parse", "--verify", "--quiet", "HEAD") is not None

    def is_tracked(self, file: Path) -> bool:
        """Return whether the last commit has the file."""
        return self.is_known and self._run("cat-file", "-e", f"HEAD:./{self._name(file)}") is not None

    def find_changes(self, *paths: Path) -> list[str]:
        """Return the changed and new files below ``paths``, or of the whole checkout, by their names in it."""
        names = [self._name(path) for path in paths]
        found = self._run("status", "--porcelain", "-z", "--no-renames", "--", *names) or ""
        return [entry[3:] for entry in found.split("\0") if entry]

    def restore(self, files: Iterable[Path]) -> list[Path]:
        """Make files as the last commit has them. Return those that can't be."""
        return [file for file in files if self._run("checkout", "HEAD", "--", self._name(file)) is None]

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._folder))

    def _run(self, *arguments: str) -> str | None:
        """Return the output of git, None when it fails."""
        program = shutil.which("git")
        if program is None:
            return None
        command = [program, "-C", str(self._folder), *arguments]
        try:
            done = subprocess.run(  # noqa: S603  (the arguments are paths after "--", or names of ours)
                command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout if done.returncode == 0 else None
