"""``SqliteMoney``: money in one SQLite file, shared by all gateways of this machine.

Committed data survives the death of the process. Source: docs/limits.md, docs/ledger.md.
"""

import logging
import sqlite3
from collections.abc import Hashable, Sequence
from contextlib import ExitStack
from pathlib import Path

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.store.money import settlements
from addon.store.money.engine import Make
from addon.store.money.money import Money
from addon.store.money.sqlite.connection import NEVER_WRITABLE, raising_unavailable
from addon.store.money.sqlite.engine import SQLITE, read_counters, run
from addon.store.money.sqlite.file import LedgerFile
from addon.store.money.sqlite.process_lock import ProcessLock
from addon.store.money.sqlite.recount import reclaim_counters
from addon.store.protocol import TIMEOUT_S, StoreUnavailable
from policies.limits import Counter

log = logging.getLogger("tollgate.store")

_CLOSE_TIMEOUT_S = 2.0


class SqliteMoney(Money):
    """``Money`` in the file ``path``, which is created with its folder when it is missing.

    Raise ``StoreUnavailable`` when the file can't be opened or belongs to a newer version. All processes that use this
    file share ``clock``.
    """

    def __init__(self, path: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        with ExitStack() as half_open, raising_unavailable(path):
            self._file = LedgerFile(path, clock)
            half_open.callback(self._file.close)
            self._process = ProcessLock(path.with_name(f"{path.name}-owners"))
            half_open.callback(self._process.close)
            super().__init__(SQLITE, self._process.id, NEVER_WRITABLE, clock)
            self._file.transact(reclaim_counters)
            (ended,) = self._file.transact(self._interrupt_calls_of_dead)
            self._ledger_id = str(self._file.connection.execute("SELECT id FROM ledger").fetchone()[0])
            half_open.pop_all()
        self._file.disable_busy_timeout()
        _log_interrupted(ended)

    @property
    def ledger_id(self) -> str:
        return self._ledger_id

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

    async def read_counters(self, workspace: str, counters: Sequence[Counter]) -> list[tuple[int, int]]:  # noqa: ARG002
        """See ``Store.read_counters``. A scope names its workspace."""
        return await self._file.read(lambda: read_counters(self._file.connection, counters))

    async def maintain(self) -> None:
        await self._write_pending()
        # This read needs no lock and does not write to the disk.
        if await self._file.read(lambda: self._find_dead_owners(self._file.connection)):
            _log_interrupted(await self._file.write(self._interrupt_calls_of_dead))
        await self._write_refusals()

    async def check(self) -> None:
        await self._write_pending()
        # The cheapest real write: a lock alone would not notice a read-only file or a full disk.
        await self._file.write(lambda c: c.execute("PRAGMA user_version = 0"))

    async def close(self) -> None:
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
            for row in connection.execute(_INTERRUPTED_ROWS, (owner,)).fetchall()
        ]
        return run(connection, settlements.interrupt(rows, SQLITE))


def _log_interrupted(calls: int) -> None:
    if calls:
        log.warning("%d calls of a gateway that ended were interrupted", calls)


_INTERRUPTED_ROWS = "SELECT interrupted_row, budgets FROM holds WHERE owner = ?"
