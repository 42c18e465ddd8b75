"""The content of one file as it was read, and its text and TOML.

Source: docs/configuration.md, "Edits".
"""

import codecs
import errno
import os
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from addon.settings.errors import SettingsError
from addon.text.toml import TomlError, load_toml

type Stamp = tuple[int, int, int] | None
"""Numbers that change whenever a file changes; None where there is no file."""

MAX_FILE_BYTES: Final = 16 << 20

NO_STAMP: Final = (-1, -1, -1)
"""The stamp of no file. It marks content that was read while the file changed, so that it is read again."""
_TRIES: Final = 3
_TEXT_SUFFIXES: Final = (".toml", ".conf")


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of a file, or the error of reading it. Never shown: it may be a secret.

    ``version`` changes with the content.
    """

    stamp: Stamp
    content: bytes | OSError = field(repr=False)
    mode: int = 0
    version: int = 0

    @property
    def is_missing(self) -> bool:
        return isinstance(self.content, FileNotFoundError)

    def equals(self, other: Self) -> bool:
        """Return whether both have the same content and mode, or the same error."""
        if isinstance(self.content, OSError) or isinstance(other.content, OSError):
            return getattr(self.content, "errno", None) == getattr(other.content, "errno", None)
        return (self.content, self.mode) == (other.content, other.mode)


def read_content(path: Path) -> FileContent:
    """Read a whole file. Read again, at most three times in all, while it changes during the read."""
    for _ in range(_TRIES):
        before = read_stamp(path)
        found = _read_once(path, before)
        if read_stamp(path) == before:
            return found
    return replace(found, stamp=NO_STAMP)


def _read_once(path: Path, stamp: Stamp) -> FileContent:
    try:
        if path.suffix in _TEXT_SUFFIXES and stat.S_ISFIFO(path.stat().st_mode):
            # A read of a pipe waits for its writer. Only a secret may be in one.
            raise OSError(errno.EINVAL, "is a pipe, and not a file")
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
            mode = os.fstat(stream.fileno()).st_mode
    except OSError as error:
        return FileContent(stamp, error)
    if len(content) > MAX_FILE_BYTES:
        return FileContent(stamp, OSError(errno.EFBIG, f"larger than {MAX_FILE_BYTES} bytes"))
    return FileContent(stamp, content, mode)


def read_stamp(path: Path) -> Stamp:
    """Return the stamp of a file. It also changes with the file's mode."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    # Not the time of the last write: a corrected mode must count too, and it does not change the content.
    return (found.st_ctime_ns, found.st_size, found.st_ino)


def describe_error(error: OSError) -> str:
    """Return why a file can't be read, in a few words."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return (error.strerror or "can't be read").lower()


def decode_text(content: bytes, file: Path) -> str:
    """Return the bytes of ``file`` as text. Raises ``SettingsError``."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise SettingsError(file, "", f"is not UTF-8 at byte {error.start}") from None


def parse_toml(content: bytes, file: Path) -> dict[str, Any]:
    """Return the tables in the bytes of ``file``. Raises ``SettingsError`` with the number of the wrong line."""
    if content.startswith(codecs.BOM_UTF8):
        raise SettingsError(file, "", "begins with a byte order mark; save it as UTF-8 without one")
    try:
        return load_toml(decode_text(content, file))
    except TomlError as error:
        raise SettingsError(file, "", f"is not TOML: {error}") from None


def make_absolute(path: Path) -> Path:
    """Return the absolute path without ``..``. Symbolic links stay."""
    return Path(os.path.abspath(path))


def find_real_path(path: Path) -> str:
    """Return the path of the file that is read for ``path``, after all links."""
    return os.path.realpath(make_absolute(path))
