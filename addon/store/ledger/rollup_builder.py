"""The background task that adds the rows of an older ledger, and of the last hour, to the rollups.

Source: docs/decisions/triggers-keep-the-rollups.md.
"""

import asyncio
import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.store.ledger.rollups import build_step, is_behind

log = logging.getLogger("tollgate.store")

_STEP_S: Final = 0.004
"""How long a step should hold the ledger's write lock. The time of one step sets the number of rows of the next."""
_REST_FACTOR: Final = 4
"""The rest after a step, during which calls have the lock, is this many times as long as the step."""
_QUIET_REST_FACTOR: Final = 1
"""The same while no one else writes the ledger."""
_QUIET_S: Final = 0.5
"""The ledger is quiet when no one else has written it for so long."""
LOOK_S: Final = 5.0
"""The rest when there is nothing to build."""
_FEWEST_ROWS: Final = 20
_MOST_ROWS: Final = 2_000


class RollupBuilder:
    """The builder of one process. Of several processes with one ledger, only one builds.

    It has a thread and a connection of its own, so the event loop never waits for it.
    """

    def __init__(
        self, database: Path, clock: Clock = SYSTEM_CLOCK, time_s: Callable[[], float] = time.perf_counter
    ) -> None:
        self._database = database
        self._clock = clock
        self._time_s = time_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rollups")
        self._task: asyncio.Task[None] | None = None
        self._lock: int | None = None
        self._connection: sqlite3.Connection | None = None
        self._rows = _FEWEST_ROWS
        self._version = 0
        self._written_s = time_s()
        self._has_failed = False

    def start(self) -> None:
        """Start to build, on the running event loop. The ledger exists."""
        self._task = asyncio.create_task(self._build(), name="rollups")

    async def stop(self) -> None:
        """Stop after the current step."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        await asyncio.get_running_loop().run_in_executor(self._thread, self.close)
        self._thread.shutdown(wait=False)

    async def _build(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                pause_s = await loop.run_in_executor(self._thread, self.step)
                self._has_failed = False
            except (OSError, sqlite3.Error) as error:
                # Reports then read rows instead, which takes longer.
                if not self._has_failed:
                    log.warning("the rollups can't be built: %s", error)
                self._has_failed, pause_s = True, LOOK_S
            await asyncio.sleep(pause_s)

    def step(self) -> float:
        """Build one step, if one is due and no other process builds. Return how many seconds to rest then."""
        if self._lock is None:
            self._lock = _try_lock(self._database.with_name(f"{self._database.name}-owners") / ".rollups")
        if self._lock is None:
            return LOOK_S
        if self._connection is None:
            self._connection = sqlite3.connect(self._database, timeout=1, isolation_level=None)
            self._connection.execute("PRAGMA synchronous = NORMAL")
        now = self._clock.now()
        if not is_behind(self._connection, now):
            return LOOK_S
        began_s = self._time_s()
        build_step(self._connection, now, self._rows)
        took_s = self._time_s() - began_s
        if took_s < _STEP_S / 2:
            self._rows = min(self._rows * 2, _MOST_ROWS)
        elif took_s > _STEP_S:
            self._rows = max(self._rows // 2, _FEWEST_ROWS)
        return took_s * (_QUIET_REST_FACTOR if self._is_quiet(self._connection) else _REST_FACTOR)

    def _is_quiet(self, connection: sqlite3.Connection) -> bool:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        now_s = self._time_s()
        if version != self._version:  # Another connection has written since the last step.
            self._version, self._written_s = version, now_s
        return now_s - self._written_s > _QUIET_S

    def close(self) -> None:
        """Let another process build. The thread of the steps calls this."""
        if self._connection:
            self._connection.close()
        if self._lock is not None:
            os.close(self._lock)


def _try_lock(file: Path) -> int | None:
    """Return the descriptor of the locked file, None while another process has the lock. It ends with the process."""
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    os.close(descriptor)
    return None
