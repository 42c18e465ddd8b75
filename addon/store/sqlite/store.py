"""``SqliteStore``: everything in one SQLite file, for all gateways of this machine.

What was committed survives the process's death. Source: docs/limits.md, docs/ledger.md.
"""

import logging
import sqlite3
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from addon.runtime.clock import SYSTEM_CLOCK, Clock, monotonic_us
from addon.store import (
    BOUND_S,
    HOLDS_NOTHING,
    Booking,
    CallNotHeld,
    HoldRequest,
    IllegalRowError,
    StoreUnavailable,
    WalletEntry,
)
from addon.store.circuits import Circuits, SharesCircuits
from addon.store.ledger.file import NEVER_WRITABLE, LedgerFile, translated
from addon.store.ledger.recount import take_back
from addon.store.pending_writes import Kept
from addon.store.process_lock import Owner
from addon.store.sqlite import money
from addon.store.sqlite.circuits import SqliteCircuits
from policies.spend import Denial, Hold

log = logging.getLogger("tollgate.store")

_PATIENT_S = 2.0  # While closing.


class SqliteStore(SharesCircuits):
    """A ``Store`` in the file ``path``, which is made with its folder where it is missing.

    Raises ``StoreUnavailable`` where it can't be opened, or is the database of a newer version.
    ``clock`` is the one that all processes with this file share.
    """

    def __init__(self, path: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._kept = Kept()
        self._full: set[str] = set()
        with ExitStack() as half_open, translated(path):
            self._file = LedgerFile(path, clock)
            half_open.callback(self._file.close)
            self._owner = Owner(path.with_name(f"{path.name}-owners"))
            half_open.callback(self._owner.close)
            self._file.transact(take_back)
            self._file.transact(self._interrupt_the_dead)
            half_open.pop_all()
        self._file.hurry()
        self._circuits = Circuits(SqliteCircuits(self._file, clock), clock)

    async def take(self, workspace: str, limit_rpm: int) -> int:
        """See ``Store.take``."""
        if workspace in self._full:
            # Reading needs no lock, so a flood of calls that are refused holds up nobody.
            wait_us = await self._file.attempt(
                lambda: money.token_wait_us(
                    self._file.connection, workspace, limit_rpm, monotonic_us(self._clock)
                )
            )
            if wait_us:
                return wait_us
        wait_us = await self._file.write(
            lambda c: money.take(c, workspace, limit_rpm, monotonic_us(self._clock))
        )
        (self._full.add if wait_us else self._full.discard)(workspace)
        return wait_us

    async def hold(self, request: HoldRequest) -> Hold | Denial:
        """See ``Store.hold``."""
        self._kept.check_room()
        return await self._file.write(lambda c: money.hold(c, request, self._owner.id, self._clock.now()))

    async def move(self, request: HoldRequest) -> Hold | Denial:
        """See ``Store.move``."""
        moved = await self._file.write(lambda c: money.move(c, request, self._owner.id, self._clock.now()))
        if moved is None:
            raise CallNotHeld(HOLDS_NOTHING)
        return moved

    async def settle(self, booking: Booking) -> None:
        """See ``Store.settle``."""
        try:
            await self._settle(booking)
        except IllegalRowError:
            with suppress(StoreUnavailable):  # Done later.
                await self.void(booking.row["id"])
            raise
        except BaseException as error:
            self._kept.keep(booking, error)
            raise

    async def void(self, call_id: str) -> None:
        """See ``Store.void``."""
        try:
            await self._void(call_id)
        except StoreUnavailable:
            self._kept.voids.add(call_id)
            raise

    async def credit(self, entry: WalletEntry) -> bool:
        """See ``Store.credit``."""
        return await self._file.write(partial(money.credit, entry=entry))

    async def upkeep(self) -> None:
        """See ``Store.upkeep``."""
        await self._kept.write(self._settle, self._void)
        # A look needs no lock, and leaves the disk alone.
        if await self._file.attempt(lambda: self._dead(self._file.connection)):
            await self._file.write(self._interrupt_the_dead)
        await self._circuits.refresh()

    async def check(self) -> None:
        """See ``Store.check``."""
        await self._kept.write(self._settle, self._void)
        # The cheapest real write: a lock alone would not notice a read-only file or a full disk.
        await self._file.write(lambda c: c.execute("PRAGMA user_version = 0"))

    async def close(self) -> None:
        """See ``Store.close``."""
        if self._owner.is_open:
            try:
                await self._kept.write(
                    partial(self._settle, bound_s=_PATIENT_S), partial(self._void, bound_s=_PATIENT_S)
                )
            except StoreUnavailable as error:
                self._kept.give_up(str(error))
            self._owner.close()
            self._file.close()

    async def _settle(self, booking: Booking, bound_s: float = BOUND_S) -> None:
        try:
            await self._file.write(partial(money.settle, booking=booking), bound_s)
        except NEVER_WRITABLE as error:
            raise IllegalRowError(f"usage row {booking.row.get('id')}: {error}") from error

    async def _void(self, call_id: str, bound_s: float = BOUND_S) -> None:
        await self._file.write(partial(money.void, call_id=call_id), bound_s)

    def _dead(self, connection: sqlite3.Connection) -> list[str]:
        return [owner for owner in money.owners(connection) if not self._owner.lives(owner)]

    def _interrupt_the_dead(self, connection: sqlite3.Connection) -> None:
        if ended := money.interrupt(connection, self._dead(connection)):
            log.warning("%d calls of a gateway that ended were interrupted", ended)
