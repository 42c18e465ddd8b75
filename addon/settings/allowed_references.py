"""The references to secrets that ``[admin] references`` allows in the console.

A pattern is a reference in which ``*`` stands for any characters but ``/``. Files are compared by their real paths, so
neither ``..`` nor a link leads anywhere else. Source: docs/configuration.md, "[admin]".
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator

from addon.settings.file_content import find_real_path
from addon.settings.value_types import SecretReference

_PATTERN_IS: Final = 'must be a reference such as "env:BYOK_*" or "file:secrets/*"'


def is_allowed(reference: SecretReference, patterns: Iterable[str], folder: Path) -> bool:
    """Return whether one of the ``patterns`` allows a reference. Relative paths of both begin at ``folder``.

    A sealed token is never allowed: who has one need not know the secret in it.
    """
    prefix = f"{reference.kind}:"
    mine = [one.removeprefix(prefix) for one in patterns if one.startswith(prefix)]
    if reference.kind == "env":
        return any(_matches(pattern, reference.name) for pattern in mine)
    if reference.kind == "file":
        real = Path(find_real_path(folder / reference.name))
        return any(_matches_path(folder / pattern, real) for pattern in mine)
    return False


def _matches_path(pattern: Path, real: Path) -> bool:
    fixed = list(takewhile(lambda part: "*" not in part, pattern.parts))
    folder, patterns = Path(find_real_path(Path(*fixed))), pattern.parts[len(fixed) :]
    if not real.is_relative_to(folder):
        return False
    names = real.relative_to(folder).parts
    return len(names) == len(patterns) and all(map(_matches, patterns, names))


def _matches(pattern: str, name: str) -> bool:
    literal = pattern.replace("[", "[[]").replace("?", "[?]")  # Only ``*`` is special here.
    return "/" not in name and fnmatchcase(name, literal)


def _check_pattern(text: str) -> str:
    kind, _, name = text.partition(":")
    if kind == "env" and re.fullmatch(r"[A-Za-z_*][A-Za-z0-9_*]*", name):
        return text
    if kind != "file" or not name or "\0" in name:
        raise ValueError(_PATTERN_IS)
    before, star, after = name.partition("*")
    if star and ".." in Path(before + star + after).parts:
        raise ValueError('must not have both "*" and ".."')
    return text


type ReferencePattern = Annotated[str, AfterValidator(_check_pattern)]
