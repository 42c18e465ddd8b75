"""A store with metrics and logs: it times each operation, counts the holds in flight and logs a failing store."""

import logging
import time
from bisect import bisect_left
from collections.abc import Awaitable, Coroutine, Sequence
from operator import attrgetter
from typing import Any

from addon.store.protocol import (
    CallNotHeld,
    HoldRequest,
    NoToken,
    Settlement,
    Store,
    StoreUnavailable,
    WalletEntry,
)
from addon.telemetry.metric_families import STORE_BUCKETS_S
from addon.telemetry.metrics import Metrics, StoreCells
from policies.limits import Counter
from policies.spend import Denial, Hold
from policies.token_limits import TokenDenial

log = logging.getLogger("tollgate.store")


class MeasuredStore:
    """A ``Store`` that passes every call on to ``store``. A hold is in flight until its call is settled or voided.

    The first operation that fails logs "store unavailable", once, whatever the store and the cause. Only ``check``,
    which writes, logs the recovery. The caller reports a start that fails, or has ``note_outage`` log it.
    """

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        # Without a layer between, because each call asks for them and there is nothing to measure.
        self.empty_buckets = store.empty_buckets
        self.is_circuit_open = store.is_circuit_open
        self.circuit_allows = store.circuit_allows
        self.record_attempt = store.record_attempt
        self.end_probe = store.end_probe
        self.open_circuits = store.open_circuits
        self.count_refusal = store.count_refusal
        self._take, self._hold = metrics.store["take"], metrics.store["hold"]
        self._move = metrics.store["move"]
        self._settle, self._void = metrics.store["settle"], metrics.store["void"]
        self._held: set[str] = set()
        self._held_count = metrics.holds_in_flight
        self._unavailable, self._unrecorded = metrics.store_unavailable, metrics.unrecorded_calls
        self._is_available: bool | None = None
        self.outage: str | None = None
        """Why the store does not work, None while it does."""

    def take_token(self, workspace: str, limit_rpm: int) -> Coroutine[Any, Any, int]:
        return self._measure(self._store.take_token(workspace, limit_rpm), self._take)

    def hold(self, request: HoldRequest) -> Coroutine[Any, Any, Hold | Denial]:
        return self._measure(self._store.hold(request), self._hold, held_by=request.id)

    def take_and_hold(
        self, request: HoldRequest, limit_rpm: int
    ) -> Coroutine[Any, Any, Hold | Denial | NoToken | TokenDenial]:
        """As the store. It counts as a take and a hold, each of which took as long as both."""
        decided = self._store.take_and_hold(request, limit_rpm)
        return self._measure(decided, self._take, self._hold, held_by=request.id)

    def move_hold(self, request: HoldRequest) -> Coroutine[Any, Any, Hold | Denial]:
        return self._measure(self._store.move_hold(request), self._move)

    def settle(self, settlement: Settlement) -> Coroutine[Any, Any, None]:
        self._held.discard(str(settlement.row["id"]))
        self._held_count[0] = len(self._held)
        return self._measure(self._store.settle(settlement), self._settle)

    def void(self, call_id: str) -> Coroutine[Any, Any, None]:
        self._held.discard(call_id)
        self._held_count[0] = len(self._held)
        return self._measure(self._store.void(call_id), self._void)

    async def credit(self, entry: WalletEntry) -> bool:
        return await self._watch(self._store.credit(entry))

    @property
    def held(self) -> int:
        """How many holds wait for their call to end."""
        return len(self._held)

    warnings = property(attrgetter("_store.warnings"))
    known_circuits = property(attrgetter("_store.known_circuits"))
    probes = property(attrgetter("_store.probes"))
    live_processes = property(attrgetter("_store.live_processes"))
    unrecorded = property(attrgetter("_store.unrecorded"))

    async def read_counters(self, workspace: str, counters: Sequence[Counter]) -> list[tuple[int, int]]:
        return await self._watch(self._store.read_counters(workspace, counters))

    async def maintain(self) -> None:
        try:
            await self._watch(self._store.maintain())
            if not self._is_available:
                await self.check()
        finally:
            self._unavailable[0] = int(self.outage is not None)
            self._unrecorded[0] = self._store.unrecorded

    async def check(self) -> None:
        await self._watch(self._store.check())
        if self._is_available is False:
            log.info("the store is available again", extra={"event": "store recovered"})
        self._is_available, self.outage = True, None

    async def close(self) -> None:
        await self._store.close()

    async def _measure[Answer](
        self, answer: Awaitable[Answer], *operations: StoreCells, held_by: str | None = None
    ) -> Answer:
        """Return ``answer``. Count its operations and their time, whether or not it succeeds, and a new hold."""
        began_s = time.perf_counter()
        try:
            decided = await answer
        except StoreUnavailable as error:
            for cells in operations:
                cells.errors[0] += 1
            self._note_failure(error)
            raise
        finally:
            duration_s = time.perf_counter() - began_s
            for cells in operations:
                cells.seconds[bisect_left(STORE_BUCKETS_S, duration_s)] += 1
                cells.seconds[-1] += duration_s
        if held_by is not None and isinstance(decided, Hold):
            self._held.add(held_by)
            self._held_count[0] = len(self._held)
        return decided

    async def _watch[Answer](self, answer: Awaitable[Answer]) -> Answer:
        try:
            return await answer
        except StoreUnavailable as error:
            self._note_failure(error)
            raise

    def note_outage(self, error: StoreUnavailable) -> None:
        """Note that the store does not work, also if it has never worked."""
        self._is_available = True
        self._note_failure(error)
        self._unavailable[0] = 1

    def _note_failure(self, error: StoreUnavailable) -> None:
        if self._is_available and not isinstance(error, CallNotHeld):
            log.error("the store is unavailable: %s", error, extra={"event": "store unavailable"})
            self._is_available, self.outage = False, str(error)
