"""Errors and problems of settings files, and the words of an operator's error messages.

A message never shows a secret.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from addon.text.unprintable import escape_line

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LABEL_KEYS: Final = ("id", "keywords", "when", "name")
_MAX_LABEL_CHARS: Final = 64
_MAX_NAME_CHARS: Final = 200

MAX_ERRORS: Final = 100
"""The most errors of one file. Each may take a search for the nearest name, and a page shows all."""
MORE_ERRORS: Final = "further errors are not looked for"


class SettingsError(Exception):
    """The reason why a set of files does not load. ``str`` is one line: file, dotted key (may be empty), reason.

    ``others`` are further errors that were found at the same time, in their order.
    """

    def __init__(self, file: Path, key: str, reason: str, others: tuple["SettingsError", ...] = ()) -> None:
        super().__init__(": ".join(part for part in (str(file), key, reason) if part))
        self.file = file
        self.key = key
        self.reason = reason
        self.others = others

    @property
    def all(self) -> tuple["SettingsError", ...]:
        """This error and the others, each by itself."""
        return (SettingsError(self.file, self.key, self.reason), *self.others)


class ErrorList:
    """The errors of parts that do not depend on each other, and are all checked, unless there are ``most`` errors."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self.found: list[SettingsError] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Keep a ``SettingsError`` that is raised in the context, and continue after it.

        Raise all of them where there are ``most``.
        """
        try:
            yield
        except SettingsError as error:
            self.add(error)
            if self._most is not None and len(self.found) >= self._most:
                raise join_errors([*self.found, SettingsError(error.file, "", MORE_ERRORS)]) from None

    def attempt[**P, T](self, load: Callable[P, T], *args: P.args, **options: P.kwargs) -> T | None:
        """Return what ``load`` returns. Keep a ``SettingsError`` that it raises, and return None."""
        with self.collect():
            return load(*args, **options)
        return None

    def add(self, error: SettingsError) -> None:
        """Keep an error."""
        self.found += error.all

    def raise_found(self) -> None:
        """Raise the first error with the others, if there is one."""
        raise_first(self.found)


def raise_first(errors: Iterable[SettingsError]) -> None:
    """Raise the first error with the others, if there is one."""
    if found := list(errors):
        raise join_errors(found)


def join_errors(errors: Sequence[SettingsError]) -> SettingsError:
    """Return the first error, with the others in it."""
    first, *others = errors
    return SettingsError(first.file, first.key, first.reason, tuple(others))


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
    if isinstance(error, FileNotFoundError) and error.filename is None and not _has_current_folder():
        return "the current folder does not exist any more"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _has_current_folder() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


class Entry(NamedTuple):
    """One table of an array in a key path. ``label`` is its id, or another word by which an operator knows it."""

    position: int
    label: str


def label_path(table: Any, path: Sequence[str | int]) -> Iterator[str | Entry]:
    """Yield the parts of a key path in ``table``. Each index comes with the label of its entry.

    The error of the label itself does not repeat it.
    """
    for part, below in zip(path, (*path[1:], ""), strict=True):
        try:
            table = table[part]
        except (LookupError, TypeError):
            table = None
        yield part if isinstance(part, str) else Entry(part, "" if below in _LABEL_KEYS else label_of(table))


def label_of(entry: object) -> str:
    """Return the word by which an operator knows a table of an array; an empty text where there is none."""
    match entry:
        case {"id": str(text)} | {"keywords": [str(text), *_]} | {"when": str(text)} | {"name": str(text)}:
            return text if text.isprintable() and len(text) <= _MAX_LABEL_CHARS else ""
    return ""


def join_key_path(*path: str | int | Entry) -> str:
    """Return a TOML key path as an operator writes it: ``keys[0] (ci).hash``, ``"gpt-4.1".family``."""
    text = ""
    for part in path:
        if isinstance(part, Entry):
            text += f"[{part.position}] ({part.label})" if part.label else f"[{part.position}]"
        elif isinstance(part, int):
            text += f"[{part}]"
        else:
            part = shorten_name(part)
            name = part if _BARE_KEY.fullmatch(part) else f'"{part}"'
            text += f".{name}" if text else name
    return text


def shorten_name(name: str) -> str:
    """Return a name as an error shows it, on one line."""
    name = escape_line(name)
    return name if len(name) <= _MAX_NAME_CHARS else f"{name[:_MAX_NAME_CHARS]}…"


def find_near_name(name: str, names: Iterable[str]) -> str | None:
    """Return the known name that is nearest to ``name``, None where none is near."""
    by_lower = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[close[0]] if close else None


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Return ``; did you mean "x"?`` for the known name nearest to ``name``.

    When none is near and at most 12 are known, return all of them. Else return an empty text.
    """
    known = sorted(names)
    if near := find_near_name(name, known):
        return f'; did you mean "{near}"?'
    return f"; known are {', '.join(known)}" if 0 < len(known) <= 12 else ""
