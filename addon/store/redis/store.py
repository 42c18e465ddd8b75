"""``RedisStore``: limits, holds and spend in Redis, for gateways on any number of machines; the ledger in SQLite.

Each step is one script, which Redis runs atomically. When Redis does not answer in time, the script may have run or may
still run:

| step | what happens then |
|---|---|
| ``take_token`` | a token may be lost |
| ``settle`` | it is repeated; the second time changes nothing |
| ``hold`` | it is voided, before or after Redis places it |

Source: docs/limits.md.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.store.money.pending_writes import PendingWrites, log_lost_row
from addon.store.money.refusal_counts import RefusalCounts
from addon.store.money.sqlite.connection import raising_unavailable
from addon.store.money.sqlite.file import LedgerFile
from addon.store.money.sqlite.process_lock import ProcessLock
from addon.store.protocol import (
    HoldRequest,
    IllegalRowError,
    NoToken,
    Settlement,
    StoreUnavailable,
    WalletEntry,
)
from addon.store.rates.circuits import Circuits, SharedCircuitsMixin
from addon.store.rates.redis.circuits import RedisCircuits
from addon.store.rates.redis.scripts import bucket_arguments
from addon.store.redis.call_ends import CallEnds
from addon.store.redis.client import RedisClient
from addon.store.redis.holds import Holds
from addon.store.redis.keys import keys_of
from addon.store.redis.leases import Leases
from addon.store.redis.outbox import Outbox, pack_entry
from addon.store.redis.refusals import SharedRefusals
from addon.store.redis.rows import RowChecker, find_recorded
from addon.store.redis.scripts import CREDIT, TAKE_TOKEN
from addon.store.redis.state import RedisState
from addon.store.redis.unconfirmed import UnconfirmedCalls
from policies.limits import Counter, wallet_counter
from policies.spend import Denial, Hold

log = logging.getLogger("tollgate.store")

_CLOSE_TIMEOUT_S = 2.0
_EMPTY_ALL_EVERY = 30  # In calls of ``maintain``.


class RedisStore(SharedCircuitsMixin):
    """A ``Store`` in the Redis at ``url``, with the ledger in the file ``path``.

    Raise ``StoreUnavailable`` when the file can't be opened. The first call connects to Redis.
    """

    def __init__(self, path: Path, url: SecretStr, clock: Clock = SYSTEM_CLOCK) -> None:
        self._pending = PendingWrites()
        self._unconfirmed = UnconfirmedCalls(clock)
        self._refusals = RefusalCounts(clock)
        self.count_refusal = self._refusals.add
        self.empty_buckets: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._rounds = 0
        with ExitStack() as half_open, raising_unavailable(path):
            self._client = RedisClient(url)
            self._file = LedgerFile(path, clock)
            half_open.callback(self._file.close)
            self._row_checker = RowChecker(self._file.connection)
            half_open.callback(self._row_checker.close)
            self._process = ProcessLock(path.with_name(f"{path.name}-owners"))
            half_open.pop_all()
        self._file.disable_busy_timeout()
        self._leases = Leases(self._client, self._process, clock)
        self._state = RedisState(self._client, self._file)
        self._holds = Holds(self._client, self._state, self._leases)
        self._outbox = Outbox(self._client, self._file, self._state)
        self._call_ends = CallEnds(self._client, self._state, self._leases, self._unconfirmed, self._outbox)
        self._shared_refusals = SharedRefusals(self._client, self._file)
        self._circuits = Circuits(RedisCircuits(self._client), clock)

    async def take_token(self, workspace: str, limit_rpm: int) -> int:
        """See ``Store.take_token``."""
        keys = keys_of(workspace)
        outcome, *wait_us = await self._state.run(
            TAKE_TOKEN, workspace, (keys.state, keys.takes), *bucket_arguments(limit_rpm)
        )
        if outcome == "taken":
            self.empty_buckets.discard(workspace)
            return 0
        self.empty_buckets.add(workspace)
        return int(*wait_us)

    async def hold(self, request: HoldRequest) -> Hold | Denial:
        """See ``Store.hold``."""
        return await self._place(partial(self._holds.place, request), request.id)

    async def take_and_hold(self, request: HoldRequest, limit_rpm: int) -> Hold | Denial | NoToken:
        """See ``Store.take_and_hold``."""
        place = partial(self._holds.take_and_place, request, bucket_arguments(limit_rpm))
        decided = await self._place(place, request.id)
        if isinstance(decided, NoToken):
            self.empty_buckets.add(request.workspace)
        return decided

    async def _place[T](self, place: Callable[[], Awaitable[T]], call_id: str) -> T:
        """Place a hold, unless too many settlements are pending."""
        if self._pending.is_full:
            self._pending.refuse()
        try:
            return await place()
        except BaseException:
            self._void_unknown(call_id)
            raise

    async def move_hold(self, request: HoldRequest) -> Hold | Denial:
        """See ``Store.move_hold``."""
        return await self._holds.move(request)

    async def settle(self, settlement: Settlement) -> None:
        """See ``Store.settle``."""
        try:
            settlement = self._row_checker.check_call(settlement)
            await self._settle(settlement)
        except IllegalRowError:
            with suppress(StoreUnavailable):  # It is tried again later.
                await self.void(str(settlement.row.get("id")))
            raise
        except BaseException as error:
            self._pending.add(settlement, error)
            raise

    async def void(self, call_id: str) -> None:
        """See ``Store.void``."""
        try:
            await self._holds.release(call_id)
        except StoreUnavailable:
            self._pending.voids.add(call_id)
            raise

    async def credit(self, entry: WalletEntry) -> bool:
        """See ``Store.credit``. Raises ``IllegalRowError`` for an entry that can't be written."""
        self._row_checker.check_entry(entry)
        keys = keys_of(entry.workspace)
        names = (keys.state, keys.credits, keys.outbox, keys.counter(wallet_counter(entry.workspace)))
        answer = await self._state.run(
            CREDIT, entry.workspace, names, entry.id, -entry.amount_nanousd, pack_entry(entry)
        )
        self._outbox.schedule(entry.workspace)
        return bool(answer == "new")

    @property
    def owns_ledger(self) -> bool:
        """See ``Store.owns_ledger``."""
        return self._state.owns_ledger

    async def read_counters(self, workspace: str, counters: Sequence[Counter]) -> list[tuple[int, int]]:
        """See ``Store.read_counters``."""
        keys = keys_of(workspace)
        async with self._client.timeout():
            await self._state.id()
            found = await self._client.transaction(
                ("HMGET", keys.counter(one), "spent", "requests") for one in counters
            )
        return [(int(spent or 0), int(requests or 0)) for spent, requests in found]

    async def maintain(self) -> None:
        """See ``Store.maintain``."""
        async with self._client.timeout():
            await self._state.check()
        await self._pending.write_all(self._settle, self._holds.release)
        if self._state.was_lost:
            self._leases.invalidate()
            await self._unconfirmed.write_again(self._settle)
            await self._holds.restore()
            self._state.was_lost = False
        else:
            await self._forget_confirmed()
        with raising_unavailable(self._file.path):
            await self._renew_leases()
            await self._empty_outboxes()
            self._leases.mark_reaped()
        await self._write_refusals()
        await self._circuits.refresh()

    async def check(self) -> None:
        """See ``Store.check``."""
        async with self._client.timeout():
            await self._state.check()
        await self._pending.write_all(self._settle, self._holds.release)
        await self._outbox.empty_scheduled()

    async def close(self) -> None:
        """See ``Store.close``."""
        if not self._process.is_open:
            return
        try:
            async with self._client.timeout(_CLOSE_TIMEOUT_S):
                await asyncio.gather(*self._tasks)
                await self._pending.write_all(self._settle, self._holds.release)
                await self._outbox.close()
                await self._outbox.empty_scheduled()
                await self._write_refusals()
        except StoreUnavailable as error:
            self._pending.log_lost(str(error))
            self._refusals.log_lost(str(error))
        self._log_unconfirmed()
        self._process.close()
        await self._client.close()
        self._row_checker.close()
        self._file.close()

    async def _settle(self, settlement: Settlement) -> None:
        row = settlement.row
        await self._call_ends.end(
            settlement, "settled", row["retail_nanousd"] if settlement.from_wallet else 0
        )
        self._holds.forget(row["id"])

    async def _forget_confirmed(self) -> None:
        """Forget calls that the ledger has. The ledger of another machine had the time to get them."""
        due = self._unconfirmed.due()
        if due and self._state.owns_ledger:
            recorded = await self._file.read(lambda: find_recorded(self._file.connection, due))
            self._unconfirmed.forget(recorded)
        else:
            self._unconfirmed.forget(due)

    def _log_unconfirmed(self) -> None:
        """Log the calls that Redis lost before the ledger had them, unless a rebuild came in time."""
        if not self._state.was_lost:
            return
        settlements = self._unconfirmed.settlements()
        with suppress(sqlite3.Error):
            recorded = find_recorded(self._file.connection, [one.row["id"] for one in settlements])
            settlements = [one for one in settlements if one.row["id"] not in recorded]
        for one in settlements:
            log_lost_row(one, "Redis was lost and not rebuilt")

    async def _write_refusals(self) -> None:
        await self._refusals.flush(self._shared_refusals.add)
        if self._state.owns_ledger:
            await self._shared_refusals.move()

    def _void_unknown(self, call_id: str) -> None:
        """Release the hold of a call, when it is not known whether it was placed."""
        if call_id in self._holds:
            self._run_in_background(self._try_void(call_id))

    async def _try_void(self, call_id: str) -> None:
        with suppress(StoreUnavailable):  # It is tried again later.
            await self.void(call_id)

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _renew_leases(self) -> None:
        async with self._client.timeout():
            dead = await self._leases.renew(self._holds.workspaces)
        ended = 0
        for lease in dead:
            ended += await self._call_ends.interrupt(lease)
        if ended:
            log.warning("%d calls of a gateway that ended were interrupted", ended)

    async def _empty_outboxes(self) -> None:
        if self._state.owns_ledger:
            if self._leases.has_dead_peer:
                await self._outbox.empty_all(stale_s=0)  # This includes entries that a dead process had read.
            elif self._rounds % _EMPTY_ALL_EVERY == 0:
                await self._outbox.empty_all()
            await self._outbox.empty_announced()
        else:
            await self._outbox.empty_scheduled()
        self._rounds += 1
