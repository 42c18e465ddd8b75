"""``SqliteStore``: everything in one SQLite file, shared by all gateways of this machine.

Committed data survives the death of the process. Source: docs/limits.md, docs/ledger.md.
"""

import logging
import sqlite3
from collections.abc import Hashable, Sequence
from contextlib import ExitStack
from pathlib import Path

from addon.runtime.clock import SYSTEM_CLOCK, Clock, monotonic_us
from addon.store.money import settlements
from addon.store.money.engine import Make
from addon.store.money.money import Money
from addon.store.money.sqlite.connection import NEVER_WRITABLE, raising_unavailable
from addon.store.money.sqlite.engine import SQLITE, read_counters, run
from addon.store.money.sqlite.file import LedgerFile
from addon.store.money.sqlite.process_lock import ProcessLock
from addon.store.money.sqlite.recount import reclaim_counters
from addon.store.protocol import (
    TIMEOUT_S,
    HoldRequest,
    NoToken,
    StoreUnavailable,
)
from addon.store.rates.circuits import Circuits, CircuitSnapshot, SharedCircuitsMixin
from addon.store.rates.sqlite import takes
from policies.circuit_breaker import CLOSED, Change, Circuit
from policies.limits import Counter
from policies.spend import Denial, Hold

log = logging.getLogger("tollgate.store")

_CLOSE_TIMEOUT_S = 2.0


class SqliteStore(SharedCircuitsMixin, Money):
    """A ``Store`` in the file ``path``, which is created with its folder when it is missing.

    Raise ``StoreUnavailable`` when the file can't be opened or belongs to a newer version. All processes that use this
    file share ``clock``.
    """

    def __init__(self, path: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self.empty_buckets: set[str] = set()
        with ExitStack() as half_open, raising_unavailable(path):
            self._file = LedgerFile(path, clock)
            half_open.callback(self._file.close)
            self._process = ProcessLock(path.with_name(f"{path.name}-owners"))
            half_open.callback(self._process.close)
            super().__init__(SQLITE, self._process.id, NEVER_WRITABLE, clock)
            self._file.transact(reclaim_counters)
            (ended,) = self._file.transact(self._interrupt_calls_of_dead)
            half_open.pop_all()
        self._file.disable_busy_timeout()
        self._circuits = Circuits(SqliteCircuits(self._file, clock), clock)
        _log_interrupted(ended)

    async def _do[Thing, Answer](
        self,
        make: Make[Thing, Answer],
        thing: Thing,
        key: Hashable,  # noqa: ARG002  (steps run one after the other)
        *,
        workspace: str | None = None,  # noqa: ARG002
        timeout_s: float = TIMEOUT_S,
    ) -> Answer:
        return await self._file.write(lambda connection: run(connection, make([thing]))[0], timeout_s)

    async def take_token(self, workspace: str, limit_rpm: int) -> int:
        """See ``Store.take_token``."""
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
        """See ``Store.take_and_hold``."""

        def step(connection: sqlite3.Connection) -> Hold | Denial | NoToken:
            wait_us = takes.take_token(connection, request.workspace, limit_rpm, monotonic_us(self._clock))
            return NoToken(wait_us) if wait_us else run(connection, self._make_holds([request]))[0]

        decided = await self._placing(request.id, lambda: self._file.write(step))
        if isinstance(decided, NoToken):
            self.empty_buckets.add(request.workspace)
        return decided

    owns_ledger = True

    async def read_counters(self, workspace: str, counters: Sequence[Counter]) -> list[tuple[int, int]]:  # noqa: ARG002
        """See ``Store.read_counters``. A scope names its workspace."""
        return await self._file.read(lambda: read_counters(self._file.connection, counters))

    async def maintain(self) -> None:
        """See ``Store.maintain``."""
        await self._write_pending()
        # This read needs no lock and does not write to the disk.
        if await self._file.read(lambda: self._find_dead_owners(self._file.connection)):
            _log_interrupted(await self._file.write(self._interrupt_calls_of_dead))
        await self._write_refusals()
        await self._circuits.refresh()

    async def check(self) -> None:
        """See ``Store.check``."""
        await self._write_pending()
        # The cheapest real write: a lock alone would not notice a read-only file or a full disk.
        await self._file.write(lambda c: c.execute("PRAGMA user_version = 0"))

    async def close(self) -> None:
        """See ``Store.close``."""
        if self._process.is_open:
            try:
                await self._write_pending(_CLOSE_TIMEOUT_S)
                await self._write_refusals(_CLOSE_TIMEOUT_S)
            except StoreUnavailable as error:
                self._log_lost(str(error))
            self._process.close()
            self._file.close()

    def _find_dead_owners(self, connection: sqlite3.Connection) -> list[str]:
        owners = connection.execute("SELECT DISTINCT owner FROM holds")
        return [owner for (owner,) in owners if not self._process.is_alive(owner)]

    def _interrupt_calls_of_dead(self, connection: sqlite3.Connection) -> int:
        rows = [
            row
            for owner in self._find_dead_owners(connection)
            for (row,) in connection.execute(_INTERRUPTED_ROWS, (owner,)).fetchall()
        ]
        return run(connection, settlements.interrupt(rows, SQLITE))


class SqliteCircuits:
    """A ``CircuitTable`` in the ledger's file, shared by all gateways of this machine. ``clock`` is the machine's."""

    def __init__(self, file: LedgerFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    async def read(self) -> CircuitSnapshot:
        """See ``CircuitTable.read``. This needs no lock."""
        rows = await self._file.read(lambda: self._file.connection.execute(_CIRCUITS).fetchall())
        return CircuitSnapshot({name: Circuit(*values) for name, *values in rows}, monotonic_us(self._clock))

    async def change(self, name: str, change: Change) -> tuple[Circuit, Circuit]:
        """See ``CircuitTable.change``."""
        return await self._file.write(lambda connection: self._change(connection, name, change))

    def _change(self, connection: sqlite3.Connection, name: str, change: Change) -> tuple[Circuit, Circuit]:
        row = connection.execute(f"{_CIRCUITS} WHERE name = ?", (name,)).fetchone()
        before = Circuit(*row[1:]) if row else CLOSED
        after = change(before, monotonic_us(self._clock))
        if after == CLOSED:
            connection.execute("DELETE FROM circuits WHERE name = ?", (name,))
        elif after != before:
            values = (name, after.failures, after.began_us, after.retry_us)
            connection.execute("INSERT OR REPLACE INTO circuits VALUES (?, ?, ?, ?)", values)
        return before, after


def _log_interrupted(calls: int) -> None:
    if calls:
        log.warning("%d calls of a gateway that ended were interrupted", calls)


_CIRCUITS = "SELECT name, failures, began_at_us, retry_at_us FROM circuits"
_INTERRUPTED_ROWS = "SELECT interrupted_row FROM holds WHERE owner = ?"
