"""Checking and writing the files that operators edit: a fault is one ``SettingsError`` line, never a secret."""

import difflib
import os
import re
import stat
import tempfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

_TOML_WORDS = {
    "missing": "is required",
    "model_type": "must be a table",
    "dict_type": "must be a table",
    "tuple_type": "must be an array",
    "frozen_set_type": "must be an array of strings",
}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class SettingsError(Exception):
    """Why a set of files does not load. ``str`` is one line: file, dotted key (may be empty), reason."""

    def __init__(self, file: Path, key: str, reason: str) -> None:
        super().__init__(": ".join(part for part in (str(file), key, reason) if part))
        self.file = file
        self.key = key
        self.reason = reason


def fault_line(error: Exception) -> str:
    """Return one line that says what is wrong, with the file where there is one."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def validate[T](schema: type[T] | TypeAdapter[T], file: Path, table: dict[str, Any]) -> T:
    """Return the table as the schema's type, paths relative to ``file``. Raises ``SettingsError``."""
    adapter = schema if isinstance(schema, TypeAdapter) else TypeAdapter(schema)
    try:
        return adapter.validate_python(table, context={"folder": absolute(file).parent})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    context = first.get("ctx", {})
    where = [part for part in first["loc"] if part != "[key]"]
    where.extend(context.get("path", ()))
    raise SettingsError(file, dotted(*where), _reason(first["type"], first["msg"], context))


def _reason(kind: str, message: str, context: Mapping[str, Any]) -> str:
    if kind == "value_error":
        return str(context["error"])
    return _TOML_WORDS.get(kind) or message.replace("Input should be", "must be")


def dotted(*path: str | int) -> str:
    """Return a TOML key path as an operator writes it: ``keys[0].hash``, ``"gpt-4.1".family``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE_KEY.fullmatch(part) else f'"{part}"'
            text += f".{name}" if text else name
    return text


def nearest(name: str, names: Iterable[str]) -> str:
    """Return ``; did you mean "x"?``, or the names to choose from when none is near and they are few."""
    by_lower = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    if close:
        return f'; did you mean "{by_lower[close[0]]}"?'
    few = 0 < len(by_lower) <= 12
    return f"; known are {', '.join(sorted(by_lower.values()))}" if few else ""


def check_known(name: str, names: Collection[str], file: Path, *path: str | int, kind: str = "") -> str:
    """Return ``name`` if it is one of ``names``. Raises ``SettingsError``."""
    if name not in names:
        raise SettingsError(file, dotted(*path), f'unknown {kind or path[-1]} "{name}"{nearest(name, names)}')
    return name


def write_atomically(file: Path, text: str | bytes) -> None:
    """Replace a file by ``text`` so that a reader sees the old or the new one whole; raises ``OSError``.

    An existing file keeps its mode and owner; a new one is readable by its owner only.
    """
    file = file.resolve()
    descriptor, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            if file.exists():
                _copy_access(file, stream.fileno())
            stream.write(text.encode() if isinstance(text, str) else text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(file.parent)


def _copy_access(file: Path, descriptor: int) -> None:
    before, after = file.stat(), os.fstat(descriptor)
    if (before.st_uid, before.st_gid) != (after.st_uid, after.st_gid):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def absolute(path: Path) -> Path:
    """Return the whole path, symbolic links as they are."""
    return Path(os.path.abspath(path))
