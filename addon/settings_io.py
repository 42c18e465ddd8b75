"""Reading and writing the files that operators edit: a fault is one ``SettingsError`` line, never a secret.

``Sources`` remembers all that a load looked at, so that ``addon/reload.py`` knows when to look again, and can
lay a text over a file, so that an edit is tried out before it is written.
"""

import difflib
import errno
import hashlib
import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter, ValidationError

type Stamp = tuple[int, int, int] | tuple[str, ...] | None

_NO_OVERLAY: Mapping[Path, str] = MappingProxyType({})
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


class Sources:
    """What one load looked at: each file and folder, with its stamp from just before it was read.

    ``overlay`` maps files to texts that stand in for what is on disk.
    """

    def __init__(self, overlay: Mapping[Path, str] = _NO_OVERLAY) -> None:
        self._overlay = {_absolute(file): text.encode() for file, text in overlay.items()}
        self.stamps: dict[Path, Stamp] = {}
        self._digest = hashlib.sha256()

    @property
    def fingerprint(self) -> str:
        """16 hex digits that change with any content read so far, secrets excepted."""
        return self._digest.hexdigest()[:16]

    def look(self) -> Mapping[Path, Stamp]:
        """Return the stamps that all that was read has now; None for what is missing."""
        return {path: _stamp(path) for path in self.stamps}

    def list_toml(self, folder: Path) -> list[Path]:
        """Return the ``*.toml`` files of a folder by name, hidden ones left out. Raises ``SettingsError``."""
        folder = _absolute(folder)
        self.stamps[folder] = _stamp(folder)
        if not folder.is_dir():
            raise SettingsError(folder, "", "no such folder")
        laid_over = {file for file in self._overlay if file.parent == folder}
        return sorted(laid_over | {folder / name for name in _toml_names(folder)})

    def read(self, file: Path) -> bytes:
        """Return the content of a file. Raises ``SettingsError``."""
        file = _absolute(file)
        self.stamps[file] = _stamp(file)
        content = self._overlay.get(file)
        if content is None:
            try:
                content = file.read_bytes()
            except OSError as error:
                raise SettingsError(file, "", _why(error)) from None
        self._digest.update(b"%s\0%d\0%s" % (file.name.encode(), len(content), content))
        return content

    def read_secret(self, file: Path, *, owner_only: bool = False) -> bytes:
        """Return the content of a secret's file, kept out of the fingerprint. Raises ``OSError``.

        With ``owner_only``, also where others than the file's owner may do anything with it.
        """
        file = _absolute(file)
        self.stamps[file] = _stamp(file)
        with file.open("rb") as stream:
            if owner_only and os.fstat(stream.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise PermissionError(errno.EPERM, "others than its owner may use it; set its mode to 600")
            return stream.read()

    def read_text(self, file: Path) -> str:
        """Return the content of a text file, its line ends as they stand. Raises ``SettingsError``."""
        try:
            return self.read(file).decode()
        except UnicodeDecodeError as error:
            raise SettingsError(file, "", f"is not UTF-8 at byte {error.start}") from None

    def read_toml(self, file: Path) -> dict[str, Any]:
        """Return the tables of a TOML file. Raises ``SettingsError`` with the line at fault."""
        try:
            return tomllib.loads(self.read_text(file))
        except ValueError as error:
            raise SettingsError(file, "", f"is not TOML: {error}") from None
        except RecursionError:
            raise SettingsError(file, "", "is not TOML: nested too deeply") from None


def validate[T](schema: type[T] | TypeAdapter[T], file: Path, table: dict[str, Any]) -> T:
    """Return the table as the schema's type, paths relative to ``file``. Raises ``SettingsError``."""
    adapter = schema if isinstance(schema, TypeAdapter) else TypeAdapter(schema)
    try:
        return adapter.validate_python(table, context={"folder": _absolute(file).parent})
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


def write_atomically(file: Path, text: str) -> None:
    """Replace a file by ``text`` so that a reader sees the old or the new one whole; raises ``OSError``.

    An existing file keeps its mode and owner; a new one is readable by its owner only.
    """
    file = file.resolve()
    descriptor, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            if file.exists():
                _copy_access(file, stream.fileno())
            stream.write(text.encode())
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


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            return tuple(_toml_names(path))
    except OSError:
        return None
    # The time of the last change of any kind: a mode set right is one too, and leaves the content as it is.
    return (found.st_ctime_ns, found.st_size, found.st_ino)


def _toml_names(folder: Path) -> list[str]:
    # Editors keep their lock and swap files beside the real ones under hidden names.
    return sorted(name for name in os.listdir(folder) if name.endswith(".toml") and not name.startswith("."))


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _why(error: OSError) -> str:
    return (
        "no such file"
        if isinstance(error, FileNotFoundError)
        else (error.strerror or "can't be read").lower()
    )
