"""Atomic writes: a reader sees the old file or the new one, always whole."""

import errno
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

ABANDONED_S: Final = 60.0
"""A new file that is not in its place after this time is one of a process that died."""

_SUFFIX: Final = ".new"
_TEMPORARY: Final = re.compile(r"\..+\.[a-z0-9_]{8}\.new")


class FileChangedError(OSError):
    """Another program changed the file, so nothing was written."""


def write_atomically(file: Path, text: str | bytes) -> None:
    """Replace the content of ``file`` and sync it to the disk. Raises ``OSError``.

    An existing file keeps its mode and owner; a new one is readable by its owner only.
    """
    _write(file, text, Path.replace)


def replace_unchanged(file: Path, text: str | bytes, before: bytes | None) -> None:
    """Write as ``write_atomically``, but only while the content is still ``before``; None: there is no file.

    The content is compared after the new one is on the disk, which may take long. So a text editor that saves while
    the command works loses nothing. Raises ``FileChangedError``.
    """

    def put(temporary: Path, target: Path) -> None:
        now = None
        with suppress(FileNotFoundError):
            now = file.read_bytes()
        if now != before:
            reason = "was changed by another program at the same time; nothing was written, so try again"
            raise FileChangedError(errno.EBUSY, reason, str(file))
        temporary.replace(target)

    _write(file, text, put)


def create_atomically(file: Path, text: str | bytes) -> None:
    """Write a new file, readable by its owner only. Leave one that is there already as it is. Raises ``OSError``.

    A file system without hard links can't do that.
    """

    def put(temporary: Path, target: Path) -> None:
        with suppress(FileExistsError):
            os.link(temporary, target)
        temporary.unlink()

    _write(file, text, put)


def remove_abandoned(folder: Path) -> None:
    """Remove the new files in ``folder`` of processes that died before they were in place. They may have secrets."""
    until_s = time.time() - ABANDONED_S
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _TEMPORARY.fullmatch(entry.name) and entry.stat(follow_symlinks=False).st_mtime < until_s:
                os.unlink(entry)


def _write(file: Path, text: str | bytes, put: Callable[[Path, Path], object]) -> None:
    """Write a new file, then let ``put`` bring it from its temporary place to its own."""
    file = file.resolve()
    try:
        descriptor, temporary = tempfile.mkstemp(_SUFFIX, f".{file.name}.", file.parent)
    except OSError as error:
        error.filename = str(file.parent)  # An error names no random name.
        raise
    try:
        with os.fdopen(descriptor, "wb") as stream:
            if file.exists():
                _copy_access(file, stream.fileno())
            stream.write(text.encode() if isinstance(text, str) else text)
            stream.flush()
            os.fsync(stream.fileno())
        put(Path(temporary), file)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, temporary):
            error.filename = str(file)
        raise
    sync_path(file.parent)


def _copy_access(file: Path, descriptor: int) -> None:
    before, after = file.stat(), os.fstat(descriptor)
    if (before.st_uid, before.st_gid) != (after.st_uid, after.st_gid):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def sync_path(path: Path) -> None:
    """Write a file, or the names of a folder's files, to the disk. Raises ``OSError``."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
