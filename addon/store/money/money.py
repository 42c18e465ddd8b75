"""``Money``: the part of a store that may forget nothing: holds, counters, rows, wallets and counts of refusals.

It is the same for every engine. What differs is how a step runs, and how a dead process is found.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar

from addon.runtime.clock import Clock
from addon.store.money import holds, refusals, settlements
from addon.store.money.engine import Engine, Make, Step
from addon.store.money.pending_writes import PendingWrites
from addon.store.money.refusal_counts import RefusalBatch, RefusalCounts
from addon.store.money.rows import make_storable
from addon.store.protocol import (
    NO_HOLD_TO_MOVE,
    TIMEOUT_S,
    CallNotHeld,
    HoldRequest,
    IllegalRowError,
    Settlement,
    StoreUnavailable,
    WalletEntry,
)
from policies.spend import Denial, Hold

log = logging.getLogger("tollgate.store")


class Money(ABC):
    """The steps of calls on money: most of ``protocol.Money``. ``owner`` names this process.

    ``never_writable`` are the errors of the engine for a row that can never be written as it is.
    """

    uncertain: ClassVar[tuple[type[BaseException], ...]] = (asyncio.CancelledError,)
    """The errors after which it is not known whether a hold was placed."""

    warnings: Sequence[str] = ()

    def __init__(
        self, engine: Engine, owner: str, never_writable: tuple[type[Exception], ...], clock: Clock
    ) -> None:
        self._engine = engine
        self._owner = owner
        self._never_writable = never_writable
        self._repairable: tuple[type[Exception], ...] = (*never_writable, OverflowError, UnicodeEncodeError)
        self._clock = clock
        self._pending = PendingWrites()
        self._refusals = RefusalCounts(clock)
        self.count_refusal = self._refusals.add

    @property
    def live_processes(self) -> int:
        return 0

    @property
    def unrecorded(self) -> int:
        return len(self._pending.settlements)

    @property
    @abstractmethod
    def ledger_id(self) -> str:
        """The id of the ledger, which no other has. On a server it is known after ``check``."""

    @abstractmethod
    async def _do[Thing, Answer](
        self,
        make: Make[Thing, Answer],
        thing: Thing,
        key: Hashable,
        *,
        workspace: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Answer:
        """Do a thing in a transaction. No other names the same ``workspace``, or does a thing with the same ``key``."""

    async def hold(self, request: HoldRequest) -> Hold | Denial:
        locked = _locked(request)
        return await self._placing(
            request.id, lambda: self._do(self._make_holds, request, request.id, workspace=locked)
        )

    async def move_hold(self, request: HoldRequest) -> Hold | Denial:
        moved = await self._do(self._make_moves, request, request.id, workspace=_locked(request))
        if moved is None:
            raise CallNotHeld(NO_HOLD_TO_MOVE)
        return moved

    async def settle(self, settlement: Settlement) -> None:
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
        try:
            await self._void(call_id)
        except StoreUnavailable:
            self._pending.voids.add(call_id)
            raise

    async def credit(self, entry: WalletEntry) -> bool:
        try:
            return await self._do(self._make_credits, entry, entry.id)
        except self._never_writable as error:
            raise IllegalRowError(f"wallet entry {entry.id}: {self._describe(error)}") from error

    async def _placing[Answer](self, call_id: str, place: Callable[[], Awaitable[Answer]]) -> Answer:
        """Place a hold, unless too many settlements are pending."""
        if self._pending.is_full:
            self._pending.refuse()
        try:
            return await place()
        except self.uncertain:
            self._pending.voids.add(call_id)
            raise

    async def _write_pending(self, timeout_s: float = TIMEOUT_S) -> None:
        settle, void = partial(self._settle, timeout_s=timeout_s), partial(self._void, timeout_s=timeout_s)
        await self._pending.write_all(settle, void)

    async def _write_refusals(self, timeout_s: float = TIMEOUT_S) -> None:
        await self._refusals.flush(
            lambda batch: self._do(self._make_refusals, batch, batch.id, timeout_s=timeout_s)
        )

    def _log_lost(self, reason: str) -> None:
        self._pending.log_lost(reason)
        self._refusals.log_lost(reason)

    async def _settle(self, settlement: Settlement, timeout_s: float = TIMEOUT_S) -> None:
        try:
            await self._write(settlement, timeout_s)
        except self._repairable:
            # Nearly every row is valid, so it is repaired only here. A client's text or a provider's counts must not
            # keep a call out of the ledger.
            row = make_storable(settlement.row)
            try:
                await self._write(Settlement(row, settlement.from_wallet), timeout_s)
            except self._never_writable as error:
                raise IllegalRowError(f"usage row {row['id']}: {self._describe(error)}") from error

    def _describe(self, error: Exception) -> str:
        """Return what is wrong with a row, without its values."""
        return str(error)

    async def _write(self, settlement: Settlement, timeout_s: float) -> None:
        await self._do(self._make_settlements, settlement, settlement.row.get("id"), timeout_s=timeout_s)

    async def _void(self, call_id: str, timeout_s: float = TIMEOUT_S) -> None:
        await self._do(self._make_voids, call_id, call_id, timeout_s=timeout_s)

    def _make_holds(self, requests: Sequence[HoldRequest]) -> Step[Sequence[Hold | Denial]]:
        return holds.hold(requests, self._owner, self._clock.now(), self._engine)

    def _make_moves(self, requests: Sequence[HoldRequest]) -> Step[Sequence[Hold | Denial | None]]:
        return holds.move_hold(requests, self._owner, self._clock.now(), self._engine)

    def _make_settlements(self, ended: Sequence[Settlement]) -> Step[Sequence[None]]:
        return settlements.settle(ended, self._engine)

    def _make_voids(self, ids: Sequence[str]) -> Step[Sequence[None]]:
        return holds.void(ids, self._engine)

    def _make_credits(self, entries: Sequence[WalletEntry]) -> Step[Sequence[bool]]:
        return settlements.credit(entries, self._engine)

    def _make_refusals(self, batches: Sequence[RefusalBatch]) -> Step[Sequence[None]]:
        return refusals.record_refusals(batches, self._engine)


def _locked(request: HoldRequest) -> str | None:
    """Return the workspace whose limits a request is checked against."""
    return request.workspace if request.limits else None
