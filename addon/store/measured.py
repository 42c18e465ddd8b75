"""A store with metrics and logs: it times each operation, counts the holds in flight and logs a failing store."""

import logging
import time
from collections.abc import Awaitable, Coroutine
from typing import Any

from addon.store.protocol import CallNotHeld, HoldRequest, Settlement, Store, StoreUnavailable, WalletEntry
from addon.telemetry.metrics import Metrics, StoreOperation
from policies.spend import Denial, Hold

log = logging.getLogger("tollgate.store")


class MeasuredStore:
    """A ``Store`` that passes every call on to ``store``. A hold is in flight until its call is settled or voided.

    The first operation that fails logs "store unavailable", once, whatever the store and the cause. Only ``check``,
    which writes, logs the recovery. The caller reports a start that fails.
    """

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._held: set[str] = set()
        self._is_available: bool | None = None

    async def take_token(self, workspace: str, limit_rpm: int) -> int:
        return await self._measure("take", self._store.take_token(workspace, limit_rpm))

    async def hold(self, request: HoldRequest) -> Hold | Denial:
        decided = await self._measure("hold", self._store.hold(request))
        if isinstance(decided, Hold):
            self._held.add(request.id)
            self._metrics.set_holds_in_flight(len(self._held))
        return decided

    async def move_hold(self, request: HoldRequest) -> Hold | Denial:
        return await self._measure("move", self._store.move_hold(request))

    async def settle(self, settlement: Settlement) -> None:
        self._forget_hold(str(settlement.row["id"]))
        await self._measure("settle", self._store.settle(settlement))

    async def void(self, call_id: str) -> None:
        self._forget_hold(call_id)
        await self._measure("void", self._store.void(call_id))

    async def credit(self, entry: WalletEntry) -> bool:
        return await self._watch(self._store.credit(entry))

    async def record_attempt(self, circuit: str, *, failed: bool) -> None:
        await self._store.record_attempt(circuit, failed=failed)

    def is_circuit_open(self, circuit: str) -> bool:
        return self._store.is_circuit_open(circuit)

    async def circuit_allows(self, circuit: str, call_id: str) -> bool:
        return await self._store.circuit_allows(circuit, call_id)

    def end_probe(self, call_id: str) -> Coroutine[Any, Any, Any] | None:
        return self._store.end_probe(call_id)

    def open_circuits(self) -> frozenset[str]:
        return self._store.open_circuits()

    async def maintain(self) -> None:
        await self._watch(self._store.maintain())
        if not self._is_available:
            await self.check()

    async def check(self) -> None:
        await self._watch(self._store.check())
        if self._is_available is False:
            log.info("the store is available again", extra={"event": "store recovered"})
        self._is_available = True

    async def close(self) -> None:
        await self._store.close()

    def _forget_hold(self, call_id: str) -> None:
        self._held.discard(call_id)
        self._metrics.set_holds_in_flight(len(self._held))

    async def _measure[Answer](self, operation: StoreOperation, answer: Awaitable[Answer]) -> Answer:
        began_s, available = time.perf_counter(), True
        try:
            return await self._watch(answer)
        except StoreUnavailable:
            available = False
            raise
        finally:
            self._metrics.store_asked(operation, time.perf_counter() - began_s, available=available)

    async def _watch[Answer](self, answer: Awaitable[Answer]) -> Answer:
        try:
            return await answer
        except StoreUnavailable as error:
            if self._is_available and not isinstance(error, CallNotHeld):
                log.error("the store is unavailable: %s", error, extra={"event": "store unavailable"})
                self._is_available = False
            raise
