"""``SqliteStore``: rates and money in one SQLite file. A call takes its token and places its hold in one step."""

import sqlite3
from pathlib import Path

from addon.runtime.clock import SYSTEM_CLOCK, Clock, monotonic_us
from addon.store.money.sqlite.engine import run
from addon.store.money.sqlite.money import SqliteMoney
from addon.store.protocol import HoldRequest, NoToken
from addon.store.rates.circuits import Circuits, SharedCircuitsMixin
from addon.store.rates.sqlite import takes
from addon.store.rates.sqlite.circuits import SqliteCircuits
from policies.spend import Denial, Hold


class SqliteStore(SharedCircuitsMixin, SqliteMoney):
    """A ``Store`` in the file ``path``. See ``SqliteMoney``."""

    def __init__(self, path: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(path, clock)
        self.empty_buckets: set[str] = set()
        self._circuits = Circuits(SqliteCircuits(self._file, clock), clock)

    async def take_token(self, workspace: str, limit_rpm: int) -> int:
        if workspace in self.empty_buckets:
            # Reading needs no lock, so a flood of refused calls blocks no other call.
            wait_us = await self._file.read(
                lambda: takes.token_wait_us(
                    self._file.connection, workspace, limit_rpm, monotonic_us(self._clock)
                )
            )
            if wait_us:
                return wait_us
        wait_us = await self._file.write(
            lambda c: takes.take_token(c, workspace, limit_rpm, monotonic_us(self._clock))
        )
        (self.empty_buckets.add if wait_us else self.empty_buckets.discard)(workspace)
        return wait_us

    async def take_and_hold(self, request: HoldRequest, limit_rpm: int) -> Hold | Denial | NoToken:
        def step(connection: sqlite3.Connection) -> Hold | Denial | NoToken:
            wait_us = takes.take_token(connection, request.workspace, limit_rpm, monotonic_us(self._clock))
            return NoToken(wait_us) if wait_us else run(connection, self._make_holds([request]))[0]

        decided = await self._placing(request.id, lambda: self._file.write(step))
        if isinstance(decided, NoToken):
            self.empty_buckets.add(request.workspace)
        return decided

    async def maintain(self) -> None:
        await super().maintain()
        await self._circuits.refresh()
