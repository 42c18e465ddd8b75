"""The pace of work that is done in short steps beside calls: the size of each step, and the rest after it."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_STEP_S: Final = 0.004
"""How long a step should hold the ledger's write lock. The time of one step sets the number of rows of the next."""
_REST_FACTOR: Final = 4
"""The rest after a step, during which calls have the lock, is this many times as long as the step."""
_QUIET_REST_FACTOR: Final = 1
"""The same while no one else writes the ledger."""
_QUIET_S: Final = 0.5
"""The ledger is quiet when no one else has written it for so long."""
_FEWEST_ROWS: Final = 20
_MOST_ROWS: Final = 2_000


class StepPace:
    """The pace of one worker. ``rows`` is how many rows the next step has, ``rest_s`` the rest after the last one."""

    def __init__(self, time_s: Callable[[], float] = time.perf_counter) -> None:
        self._time_s = time_s
        self._version = 0
        self._written_s = time_s()
        self.rows = _FEWEST_ROWS
        self.rest_s = 0.0

    @contextmanager
    def step(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Measure a step, which the ``with`` block does on ``connection``."""
        began_s = self._time_s()
        yield
        took_s = self._time_s() - began_s
        if took_s < _STEP_S / 2:
            self.rows = min(self.rows * 2, _MOST_ROWS)
        elif took_s > _STEP_S:
            self.rows = max(self.rows // 2, _FEWEST_ROWS)
        self.rest_s = took_s * (_QUIET_REST_FACTOR if self._is_quiet(connection) else _REST_FACTOR)

    def _is_quiet(self, connection: sqlite3.Connection) -> bool:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        now_s = self._time_s()
        if version != self._version:  # Another connection has written since the last step.
            self._version, self._written_s = version, now_s
        return now_s - self._written_s > _QUIET_S
