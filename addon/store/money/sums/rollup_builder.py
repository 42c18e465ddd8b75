"""The background task that adds the rows of an older ledger, and of the last hour, to the rollups.

Source: docs/decisions/triggers-keep-the-rollups.md.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.store.money.sqlite.place import SqlitePlace
from addon.store.money.sums.rollups import build_step, is_behind
from addon.store.money.sums.step_pace import StepPace
from addon.store.protocol import StoreUnavailable

log = logging.getLogger("tollgate.store")

LOOK_S: Final = 5.0
"""The rest when there is nothing to build."""


class RollupBuilder:
    """The builder of one process. Of several processes with one ledger, only one builds.

    It has a thread and a connection of its own, so the event loop never waits for it.
    """

    def __init__(
        self, database: Path, clock: Clock = SYSTEM_CLOCK, time_s: Callable[[], float] = time.perf_counter
    ) -> None:
        self._database = database
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rollups")
        self._task: asyncio.Task[None] | None = None
        self._lead = SqlitePlace(database).lead("rollups")
        self._connection: sqlite3.Connection | None = None
        self._pace = StepPace(time_s)
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
            except (OSError, sqlite3.Error, StoreUnavailable) as error:
                # Reports then read rows instead, which takes longer.
                if not self._has_failed:
                    log.warning("the rollups can't be built: %s", error)
                self._has_failed, pause_s = True, LOOK_S
            await asyncio.sleep(pause_s)

    def step(self) -> float:
        """Build one step, if one is due and no other process builds. Return how many seconds to rest then."""
        if not self._lead.take():
            return LOOK_S
        if self._connection is None:
            self._connection = sqlite3.connect(self._database, timeout=1, isolation_level=None)
            self._connection.execute("PRAGMA synchronous = NORMAL")
        now = self._clock.now()
        if not is_behind(self._connection, now):
            return LOOK_S
        with self._pace.step(self._connection):
            build_step(self._connection, now, self._pace.rows)
        return self._pace.rest_s

    def close(self) -> None:
        """Let another process build. The thread of the steps calls this."""
        if self._connection:
            self._connection.close()
        self._lead.end()
