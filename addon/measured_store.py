"""A store that is measured: whatever asks it, each operation is timed, and the holds in flight are known."""

import time
from collections.abc import Awaitable

from addon.metrics import Metrics, StoreOperation
from addon.store import Booking, HoldRequest, Store, StoreUnavailable, WalletEntry
from policies.spend import Denial, Hold


class MeasuredStore:
    """Does what ``store`` does. A hold is in flight until its call is settled or voided, at once or later."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._held: set[str] = set()

    async def take(self, workspace: str, limit_rpm: int) -> int:
        return await self._ask("take", self._store.take(workspace, limit_rpm))

    async def hold(self, request: HoldRequest) -> Hold | Denial:
        decided = await self._ask("hold", self._store.hold(request))
        if isinstance(decided, Hold):
            self._held.add(request.id)
            self._metrics.set_holds_in_flight(len(self._held))
        return decided

    async def move(self, request: HoldRequest) -> Hold | Denial:
        return await self._ask("move", self._store.move(request))

    async def settle(self, booking: Booking) -> None:
        self._end(str(booking.row["id"]))
        await self._ask("settle", self._store.settle(booking))

    async def void(self, call_id: str) -> None:
        self._end(call_id)
        await self._ask("void", self._store.void(call_id))

    async def credit(self, entry: WalletEntry) -> bool:
        return await self._store.credit(entry)

    async def note_attempt(self, circuit: str, *, failed: bool) -> None:
        await self._store.note_attempt(circuit, failed=failed)

    async def may_try(self, circuit: str) -> bool:
        return await self._store.may_try(circuit)

    def open_circuits(self) -> frozenset[str]:
        return self._store.open_circuits()

    async def upkeep(self) -> None:
        await self._store.upkeep()

    async def check(self) -> None:
        await self._store.check()

    async def close(self) -> None:
        await self._store.close()

    def _end(self, call_id: str) -> None:
        self._held.discard(call_id)
        self._metrics.set_holds_in_flight(len(self._held))

    async def _ask[Answer](self, operation: StoreOperation, answer: Awaitable[Answer]) -> Answer:
        began_s, available = time.perf_counter(), True
        try:
            return await answer
        except StoreUnavailable:
            available = False
            raise
        finally:
            self._metrics.store_asked(operation, time.perf_counter() - began_s, available=available)
