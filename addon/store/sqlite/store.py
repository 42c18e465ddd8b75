"""``SqliteStore``: everything in one SQLite file, shared by all gateways of this machine.

Committed data survives the death of the process. Source: docs/limits.md, docs/ledger.md.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from addon.runtime.clock import SYSTEM_CLOCK, Clock, monotonic_us
from addon.store.circuits import Circuits, CircuitSnapshot, SharedCircuitsMixin
from addon.store.ledger.connection import NEVER_WRITABLE, raising_unavailable
from addon.store.ledger.file import LedgerFile, Work
from addon.store.ledger.recount import reclaim_counters
from addon.store.ledger.refusals import record_refusals
from addon.store.ledger.rows import make_storable
from addon.store.money import holds, settlements
from addon.store.money.engine import Step
from addon.store.pending_writes import PendingWrites
from addon.store.process_lock import ProcessLock
from addon.store.protocol import (
    NO_HOLD_TO_MOVE,
    TIMEOUT_S,
    CallNotHeld,
    HoldRequest,
    IllegalRowError,
    NoToken,
    Settlement,
    StoreUnavailable,
    WalletEntry,
)
from addon.store.refusals import RefusalCounts
from addon.store.sqlite import takes
from addon.store.sqlite.engine import SQLITE, read_counters, run
from addon.store.sqlite.rows import UNSTORABLE
from policies.circuit_breaker import CLOSED, Change, Circuit
from policies.limits import Counter
from policies.spend import Denial, Hold

log = logging.getLogger("tollgate.store")

_CLOSE_TIMEOUT_S = 2.0


class SqliteStore(SharedCircuitsMixin):
    """A ``Store`` in the file ``path``, which is created with its folder when it is missing.

    Raise ``StoreUnavailable`` when the file can't be opened or belongs to a newer version. All processes that use this
    file share ``clock``.
    """

    def __init__(self, path: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._pending = PendingWrites()
        self._refusals = RefusalCounts(clock)
        self.count_refusal = self._refusals.add
        self.empty_buckets: set[str] = set()
        with ExitStack() as half_open, raising_unavailable(path):
            self._file = LedgerFile(path, clock)
            half_open.callback(self._file.close)
            self._process = ProcessLock(path.with_name(f"{path.name}-owners"))
            half_open.callback(self._process.close)
            self._file.transact(reclaim_counters)
            (ended,) = self._file.transact(self._interrupt_calls_of_dead)
            half_open.pop_all()
        self._file.disable_busy_timeout()
        self._circuits = Circuits(SqliteCircuits(self._file, clock), clock)
        _log_interrupted(ended)

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

    async def hold(self, request: HoldRequest) -> Hold | Denial:
        """See ``Store.hold``."""
        return await self._place(partial(self._hold, request), request.id)

    async def take_and_hold(self, request: HoldRequest, limit_rpm: int) -> Hold | Denial | NoToken:
        """See ``Store.take_and_hold``."""
        decided = await self._place(partial(self._take_and_hold, request, limit_rpm), request.id)
        if isinstance(decided, NoToken):
            self.empty_buckets.add(request.workspace)
        return decided

    def _take_and_hold(
        self, request: HoldRequest, limit_rpm: int, connection: sqlite3.Connection
    ) -> Hold | Denial | NoToken:
        wait_us = takes.take_token(connection, request.workspace, limit_rpm, monotonic_us(self._clock))
        return NoToken(wait_us) if wait_us else self._hold(request, connection)

    def _hold(self, request: HoldRequest, connection: sqlite3.Connection) -> Hold | Denial:
        return run(connection, holds.hold([request], self._process.id, self._clock.now(), SQLITE))[0]

    async def _place[T](self, step: Work[T], call_id: str) -> T:
        """Run a step that places a hold, unless too many settlements are pending."""
        if self._pending.is_full:
            self._pending.refuse()
        try:
            return await self._file.write(step)
        except asyncio.CancelledError:
            self._pending.voids.add(call_id)  # It is not known whether it was placed.
            raise

    async def move_hold(self, request: HoldRequest) -> Hold | Denial:
        """See ``Store.move_hold``."""
        owner, now = self._process.id, self._clock.now()
        [moved] = await self._write(lambda: holds.move_hold([request], owner, now, SQLITE))
        if moved is None:
            raise CallNotHeld(NO_HOLD_TO_MOVE)
        return moved

    async def settle(self, settlement: Settlement) -> None:
        """See ``Store.settle``."""
        try:
            await self._settle(settlement)
        except IllegalRowError:
            with suppress(StoreUnavailable):  # It is tried again later.
                await self.void(settlement.row["id"])
            raise
        except BaseException as error:
            self._pending.add(settlement, error)
            raise

    async def void(self, call_id: str) -> None:
        """See ``Store.void``."""
        try:
            await self._void(call_id)
        except StoreUnavailable:
            self._pending.voids.add(call_id)
            raise

    async def credit(self, entry: WalletEntry) -> bool:
        """See ``Store.credit``."""
        try:
            [is_new] = await self._write(lambda: settlements.credit([entry], SQLITE))
        except NEVER_WRITABLE as error:
            raise IllegalRowError(f"wallet entry {entry.id}: {error}") from error
        return is_new

    owns_ledger = True

    async def read_counters(self, workspace: str, counters: Sequence[Counter]) -> list[tuple[int, int]]:  # noqa: ARG002
        """See ``Store.read_counters``. A scope names its workspace."""
        return await self._file.read(lambda: read_counters(self._file.connection, counters))

    async def maintain(self) -> None:
        """See ``Store.maintain``."""
        await self._pending.write_all(self._settle, self._void)
        # This read needs no lock and does not write to the disk.
        if await self._file.read(lambda: self._find_dead_owners(self._file.connection)):
            _log_interrupted(await self._file.write(self._interrupt_calls_of_dead))
        await self._refusals.flush(partial(record_refusals, self._file))
        await self._circuits.refresh()

    async def check(self) -> None:
        """See ``Store.check``."""
        await self._pending.write_all(self._settle, self._void)
        # The cheapest real write: a lock alone would not notice a read-only file or a full disk.
        await self._file.write(lambda c: c.execute("PRAGMA user_version = 0"))

    async def close(self) -> None:
        """See ``Store.close``."""
        if self._process.is_open:
            try:
                await self._pending.write_all(
                    partial(self._settle, timeout_s=_CLOSE_TIMEOUT_S),
                    partial(self._void, timeout_s=_CLOSE_TIMEOUT_S),
                )
                await self._refusals.flush(partial(record_refusals, self._file, timeout_s=_CLOSE_TIMEOUT_S))
            except StoreUnavailable as error:
                self._pending.log_lost(str(error))
                self._refusals.log_lost(str(error))
            self._process.close()
            self._file.close()

    async def _settle(self, settlement: Settlement, timeout_s: float = TIMEOUT_S) -> None:
        try:
            await self._write(lambda: settlements.settle([settlement], SQLITE), timeout_s)
        except UNSTORABLE:
            # Nearly every row is valid, so it is repaired only here. A client's text or a provider's counts must not
            # keep a call out of the ledger.
            row = make_storable(settlement.row)
            try:
                repaired = Settlement(row, settlement.from_wallet)
                await self._write(lambda: settlements.settle([repaired], SQLITE), timeout_s)
            except NEVER_WRITABLE as error:
                raise IllegalRowError(f"usage row {row['id']}: {error}") from error

    async def _void(self, call_id: str, timeout_s: float = TIMEOUT_S) -> None:
        await self._write(lambda: holds.void([call_id], SQLITE), timeout_s)

    async def _write[T](self, step: Callable[[], Step[T]], timeout_s: float = TIMEOUT_S) -> T:
        """Run a step, again when its transaction was undone."""
        return await self._file.write(lambda connection: run(connection, step()), timeout_s)

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
