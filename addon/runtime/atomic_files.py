"""Atomic writes: a reader sees the old file or the new one, always whole."""

import os
import stat
import tempfile
from pathlib import Path


def write_atomically(file: Path, text: str | bytes) -> None:
    """Replace the content of ``file`` and sync it to the disk. Raises ``OSError``.

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
    sync_folder(file.parent)


def _copy_access(file: Path, descriptor: int) -> None:
    before, after = file.stat(), os.fstat(descriptor)
    if (before.st_uid, before.st_gid) != (after.st_uid, after.st_gid):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def sync_folder(folder: Path) -> None:
    """Write the names of a folder's files to the disk. Raises ``OSError``."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
