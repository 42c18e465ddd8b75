"""Locks on a folder or file. A lock ends with the process that holds it, however that process dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of ``folder``; other processes and threads wait for it. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def try_locked(folder: Path) -> Iterator[bool]:
    """Hold the lock of ``folder`` if no one has it; give whether this holds it. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


@contextmanager
def hold_lock(file: Path) -> Iterator[None]:
    """Create ``file``, and hold its lock. Raises OSError."""
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def is_locked(file: Path) -> bool:
    """Return whether a process has the lock of ``file``. A file that does not exist has none. Raises OSError."""
    try:
        descriptor = os.open(file, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)
