"""``LogQueue``: passes log lines to a thread that writes them, so that no call waits for their reader."""

import os
import select
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, RLock, Thread
from typing import Final

MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
"""How much may wait for a reader that has stopped: the lines of some 7,000 calls."""

CLOSE_S: Final = 1.0
"""How long the end of a process waits for the reader."""


class LogQueue:
    """Whole lines on their way to a ``file``, in their order. ``dropped`` is how many were not written.

    When the queue is full, later lines are dropped until all before them are written. Lines that the system does not
    take, for instance on a full disk, are dropped too. As soon as lines can be written again,
    ``describe_dropped(count)`` is the line in their place.
    """

    def __init__(
        self, file: int, describe_dropped: Callable[[int], bytes], max_bytes: int = MAX_WAITING_BYTES
    ) -> None:
        self._file = file
        self._describe_dropped = describe_dropped
        self._max_bytes = max_bytes
        self._begin()

    def _begin(self) -> None:
        """Begin with nothing in this process. After a fork, the lines that wait are for the parent's thread."""
        self._pid = os.getpid()
        self._lines: SimpleQueue[bytes | Event] = SimpleQueue()
        self._thread: Thread | None = None
        # A line of a finalizer may come in the middle of ``put``.
        self._lock = RLock()
        self._waiting_bytes = 0
        self._is_full = self._is_closed = self._is_torn = False
        self._untold = 0
        self.dropped = 0

    def put(self, lines: bytes) -> None:
        """Pass lines on, or count them as dropped. Never waits."""
        if self._pid != os.getpid():
            self._begin()
        size = len(lines)
        with self._lock:
            self._is_full = self._is_full or self._waiting_bytes + size > self._max_bytes
            if self._is_full or not (self._thread or self._start()):
                self._drop(lines.count(b"\n"))
            else:
                self._waiting_bytes += size
                self._lines.put(lines)

    def close(self) -> None:
        """Write what waits, for at most ``CLOSE_S``, and end the thread. Later lines are dropped."""
        self._is_closed = True
        if self._thread and self._pid == os.getpid():
            self._thread = None
            self._lines.put(written := Event())
            written.wait(CLOSE_S)

    def _start(self) -> bool:
        """Start the thread. Return False where there can be none."""
        if self._is_closed:
            return False
        # The end of the process must not wait for it.
        thread = Thread(target=self._write_all, name="log", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._thread = thread
        return True

    def _write_all(self) -> None:
        """Write all lines until ``close``."""
        while not isinstance(lines := self._lines.get(), Event):
            if self._untold and not self._is_full:
                self._tell_dropped()
            self._write(lines)
            size = len(lines)
            with self._lock:
                self._waiting_bytes -= size
                is_drained = self._is_full and not self._waiting_bytes
                self._is_full = self._is_full and not is_drained
            if is_drained:
                self._tell_dropped()
        lines.set()

    def _tell_dropped(self) -> None:
        """Write how many lines were dropped. If that fails, the next attempt says it."""
        count = self._untold
        if not self._write_whole(self._describe_dropped(count)):
            with self._lock:
                self._untold -= count

    def _write(self, lines: bytes) -> None:
        if lost := self._write_whole(lines):
            self._drop(lost.count(b"\n"))

    def _write_whole(self, lines: bytes) -> bytes:
        """Return what can't be written: of the first of these lines perhaps only the end."""
        left = lines
        try:
            if self._is_torn:
                # Another line must not continue the beginning of one that was cut.
                _write_waiting(self._file, b"\n")
                self._is_torn = False
            while left:
                left = left[_write_waiting(self._file, left) :]
        except OSError:
            written = lines[: len(lines) - len(left)]
            self._is_torn = self._is_torn or (bool(written) and not written.endswith(b"\n"))
        return left

    def _drop(self, count: int) -> None:
        with self._lock:
            self.dropped += count
            self._untold += count


def _write_waiting(file: int, data: bytes) -> int:
    """Write some of ``data``, and return how many bytes. Another process may have made the file non-blocking."""
    while True:
        try:
            return os.write(file, data)
        except BlockingIOError:
            select.select([], [file], [])
