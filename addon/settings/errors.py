"""Errors and problems of settings files, and the words of an operator's error messages.

A message never shows a secret.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class SettingsError(Exception):
    """The reason why a set of files does not load. ``str`` is one line: file, dotted key (may be empty), reason."""

    def __init__(self, file: Path, key: str, reason: str) -> None:
        super().__init__(": ".join(part for part in (str(file), key, reason) if part))
        self.file = file
        self.key = key
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that does not load, why, and the consequence. ``str`` is one line: file, dotted key, reason.

    ``workspace`` is the only one that the file concerns, or None when it concerns all. In all texts, a byte of a file's
    name that is not UTF-8 is an escape such as ``\\xff``.
    """

    file: Path
    key: str
    reason: str
    consequence: str
    workspace: str | None = None

    def __str__(self) -> str:
        return str(self.error)

    @property
    def error(self) -> SettingsError:
        """The error of the file."""
        return SettingsError(self.file, self.key, self.reason)

    @classmethod
    def of(cls, error: SettingsError, consequence: str, workspace: str | None = None) -> Self:
        """Return the problem of a file with this error."""
        return cls(
            Path(_escape(str(error.file))),
            error.key,
            _escape(error.reason),
            _escape(consequence),
            None if workspace is None else _escape(workspace),
        )


def _escape(text: str) -> str:
    """Return ``text`` as valid Unicode. Metrics and snapshots of the settings can hold no other."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def describe_error(error: Exception) -> str:
    """Return one line that says what is wrong, with the file where there is one."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def join_key_path(*path: str | int) -> str:
    """Return a TOML key path as an operator writes it: ``keys[0].hash``, ``"gpt-4.1".family``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE_KEY.fullmatch(part) else f'"{part}"'
            text += f".{name}" if text else name
    return text


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Return ``; did you mean "x"?`` for the known name nearest to ``name``.

    When none is near and at most 12 are known, return all of them. Else return an empty text.
    """
    by_lower = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    if close:
        return f'; did you mean "{by_lower[close[0]]}"?'
    few = 0 < len(by_lower) <= 12
    return f"; known are {', '.join(sorted(by_lower.values()))}" if few else ""
