"""``LogLimit``: a limit for log lines that any client can cause."""

import asyncio
import logging

MAX_LINES = 10
WINDOW_S = 1.0


class LogLimit:
    """At most ``max_lines`` lines in ``WINDOW_S``. After the window, one line says how many were left out."""

    def __init__(self, log: logging.Logger, max_lines: int = MAX_LINES) -> None:
        self._log = log
        self._max_lines = max_lines
        self._lines = 0
        self._left_out = 0
        self._window: asyncio.TimerHandle | None = None

    def info(self, message: str, **fields: object) -> None:
        """Log ``message`` with ``fields``, or count it when the limit is reached."""
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """Log a warning in the same way."""
        self._write(logging.WARNING, message, fields)

    def admit(self) -> bool:
        """Return whether a line may be written now. Count it when it may not."""
        if self._window is None:
            self._window = asyncio.get_running_loop().call_later(WINDOW_S, self._end_window)
        if self._lines >= self._max_lines:
            self._left_out += 1
            return False
        self._lines += 1
        return True

    def _write(self, level: int, message: str, fields: dict[str, object]) -> None:
        if self.admit():
            self._log.log(level, "%s", message, extra=fields)

    def _end_window(self) -> None:
        self._window = None
        self._lines = 0
        left_out, self._left_out = self._left_out, 0
        if left_out:
            self._log.warning(
                "%d log lines like these were left out", left_out, extra={"event": "log limited"}
            )
