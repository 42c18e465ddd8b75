"""Which lines of the product each test runs, from the interpreter's own events."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

_TOOL = 4
_EVENTS = sys.monitoring.events


class LineRecorder:
    """Collect the lines of modules below ``folders`` (absolute, with a slash at the end) that run."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = folders
        self._lines: set[tuple[str, int]] = set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Record until the end of the block."""
        sys.monitoring.use_tool_id(_TOOL, "mutation")
        sys.monitoring.register_callback(_TOOL, _EVENTS.PY_START, self._start)
        sys.monitoring.register_callback(_TOOL, _EVENTS.LINE, self._line)
        sys.monitoring.set_events(_TOOL, _EVENTS.PY_START)
        try:
            yield
        finally:
            sys.monitoring.set_events(_TOOL, 0)
            sys.monitoring.free_tool_id(_TOOL)

    def take(self) -> set[tuple[str, int]]:
        """Return the lines since the last call, and begin anew: each line is reported once between two calls."""
        lines, self._lines = self._lines, set()
        sys.monitoring.restart_events()
        return lines

    def _start(self, code: CodeType, _offset: int) -> Any:
        if code.co_filename.startswith(self._folders):
            sys.monitoring.set_local_events(_TOOL, code, _EVENTS.LINE)
        return sys.monitoring.DISABLE

    def _line(self, code: CodeType, line: int) -> Any:
        self._lines.add((code.co_filename, line))
        return sys.monitoring.DISABLE
