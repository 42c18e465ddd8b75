"""``RedisStore``: limits, holds and spend in Redis, for gateways on any number of machines; the ledger in SQLite.

Each step is one script, which Redis runs as one. A step that was not answered in time may have been done, or may be
done yet: ``take`` then has cost a token, ``settle`` is repeated, which changes nothing the second time, and a hold is
voided, before or after it comes about. Source: docs/limits.md.
"""

import asyncio
import json
import logging
import sqlite3
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.store import Booking, HoldRequest, IllegalRowError, StoreUnavailable, WalletEntry
from addon.store.circuits import Circuits, SharesCircuits
from addon.store.ledger.file import LedgerFile, translated
from addon.store.ledger.rows import booked_of
from addon.store.pending_writes import Kept, log_lost
from addon.store.process_lock import Owner
from addon.store.redis.circuits import RedisCircuits
from addon.store.redis.client import RedisClient
from addon.store.redis.holds import Holds
from addon.store.redis.keys import ENDED_S, INTERRUPTED_S, call_counters, keys_of
from addon.store.redis.leases import Lease, Leases
from addon.store.redis.outbox import Outbox, Proofs, pack_booking, pack_entry
from addon.store.redis.scripts import CREDIT, SETTLE, TAKE_TOKEN
from addon.store.redis.state import RedisState
from addon.store.redis.unconfirmed import UnconfirmedBookings
from policies.limits import wallet_counter
from policies.spend import Denial, Hold
from policies.token_bucket import GROUPS, WINDOW_US, slice_us

log = logging.getLogger("tollgate.store")

_PATIENT_S = 2.0  # While closing.
_COLLECT_ALL_EVERY = 30  # In calls of ``upkeep``.


class RedisStore(SharesCircuits):
    """A ``Store`` in the Redis at ``url``, with the ledger in the file ``path``.

    Raises ``StoreUnavailable`` where the file can't be opened. Redis is asked from the first call on.
    """

    def __init__(self, path: Path, url: SecretStr, clock: Clock = SYSTEM_CLOCK) -> None:
        self._kept = Kept()
        self._unconfirmed = UnconfirmedBookings(clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._upkeeps = 0
        with ExitStack() as half_open, translated(path):
            self._client = RedisClient(url)
            self._file = LedgerFile(path, clock)
            half_open.callback(self._file.close)
            self._owner = Owner(path.with_name(f"{path.name}-owners"))
            half_open.pop_all()
        self._file.hurry()
        self._proofs = Proofs()
        self._leases = Leases(self._client, self._owner, clock)
        self._state = RedisState(self._client, self._file)
        self._holds = Holds(self._client, self._state, self._leases)
        self._outbox = Outbox(self._client, self._file, self._state)
        self._circuits = Circuits(RedisCircuits(self._client), clock)

    async def take(self, workspace: str, limit_rpm: int) -> int:
        """See ``Store.take``."""
        keys = keys_of(workspace)
        bucket = (limit_rpm, WINDOW_US, slice_us(limit_rpm), GROUPS + 1)
        async with self._client.bounded():
            outcome, *wait_us = await self._state.run(
                TAKE_TOKEN, workspace, (keys.state, keys.takes), *bucket
            )
        return 0 if outcome == "taken" else int(*wait_us)

    async def hold(self, request: HoldRequest) -> Hold | Denial:
        """See ``Store.hold``."""
        self._kept.check_room()
        try:
            return await self._holds.place(request)
        except BaseException:
            if request.id in self._holds:  # Whether it was placed can't be known.
                self._beside(self._void_beside(request.id))
            raise

    async def move(self, request: HoldRequest) -> Hold | Denial:
        """See ``Store.move``."""
        return await self._holds.move(request)

    async def settle(self, booking: Booking) -> None:
        """See ``Store.settle``."""
        try:
            booking = self._proofs.prove(booking)
            await self._settle(booking)
        except IllegalRowError:
            with suppress(StoreUnavailable):  # Done later.
                await self.void(str(booking.row.get("id")))
            raise
        except BaseException as error:
            self._kept.keep(booking, error)
            raise

    async def void(self, call_id: str) -> None:
        """See ``Store.void``."""
        try:
            await self._holds.release(call_id)
        except StoreUnavailable:
            self._kept.voids.add(call_id)
            raise

    async def credit(self, entry: WalletEntry) -> bool:
        """See ``Store.credit``. Raises ``IllegalRowError`` for an entry that can't be written."""
        self._proofs.prove_entry(entry)
        keys = keys_of(entry.workspace)
        names = (keys.state, keys.credits, keys.outbox, keys.counter(wallet_counter(entry.workspace)))
        async with self._client.bounded():
            answer = await self._state.run(
                CREDIT, entry.workspace, names, entry.id, -entry.amount_nanousd, pack_entry(entry)
            )
        self._outbox.note(entry.workspace)
        return bool(answer == "new")

    async def upkeep(self) -> None:
        """See ``Store.upkeep``."""
        async with self._client.bounded():
            await self._state.check()
        await self._kept.write(self._settle, self._holds.release)
        if self._state.was_lost:
            self._leases.mistrust()
            await self._unconfirmed.write_again(self._settle)
            await self._holds.place_again()
            self._state.was_lost = False
        else:
            await self._forget_confirmed()
        with translated(self._file.path):
            await self._keep_leases()
            await self._empty_outboxes()
            self._leases.seen_to()
        await self._circuits.refresh()

    async def check(self) -> None:
        """See ``Store.check``."""
        async with self._client.bounded():
            await self._state.check()
        await self._kept.write(self._settle, self._holds.release)
        await self._outbox.empty_noted()

    async def close(self) -> None:
        """See ``Store.close``."""
        if not self._owner.is_open:
            return
        try:
            async with self._client.bounded(_PATIENT_S):
                await asyncio.gather(*self._tasks)
                await self._kept.write(self._settle, self._holds.release)
                await self._outbox.close()
                await self._outbox.empty_noted()
        except StoreUnavailable as error:
            self._kept.give_up(str(error))
        self._log_unconfirmed()
        self._owner.close()
        await self._client.close()
        self._proofs.close()
        self._file.close()

    async def _settle(self, booking: Booking) -> None:
        row = booking.row
        await self._end(booking, "settled", row["retail_nanousd"] if booking.from_wallet else 0)
        self._holds.forget(row["id"])

    async def _end(self, booking: Booking, outcome: str, paid_nanousd: int) -> bool:
        """End a call, once; return whether this was it."""
        row = booking.row
        created_at = datetime.fromisoformat(row["created_at"]).astimezone(UTC)
        counters = call_counters(row["workspace"], row["key_id"], created_at.date())
        keys = keys_of(row["workspace"])
        names = (keys.state, keys.holds, keys.ended_call(row["id"]), keys.outbox, *counters.keys)
        cost = (row["retail_nanousd"], paid_nanousd)
        remembered_s = INTERRUPTED_S if outcome == "interrupted" else ENDED_S
        packed = pack_booking(booking)
        async with self._client.bounded():
            answer = await self._state.run(
                SETTLE,
                row["workspace"],
                names,
                *(row["id"], outcome, *cost, packed, remembered_s, *counters.lives_s),
            )
        self._unconfirmed.add(row["id"], packed)
        self._outbox.note(row["workspace"])
        return bool(answer == "done")

    async def _forget_confirmed(self) -> None:
        """Let go of what the ledger has; a ledger elsewhere has had the time to get it."""
        due = self._unconfirmed.due()
        if due and self._state.owns_ledger:
            booked = await self._file.attempt(lambda: booked_of(self._file.connection, due))
            self._unconfirmed.forget(booked)
        else:
            self._unconfirmed.forget(due)

    def _log_unconfirmed(self) -> None:
        """Leave in the log what Redis lost before the ledger had it, where nobody rebuilt it in time."""
        if not self._state.was_lost:
            return
        bookings = self._unconfirmed.bookings()
        with suppress(sqlite3.Error):
            booked = booked_of(self._file.connection, [one.row["id"] for one in bookings])
            bookings = [one for one in bookings if one.row["id"] not in booked]
        for one in bookings:
            log_lost(one, "Redis was lost, and not rebuilt")

    async def _void_beside(self, call_id: str) -> None:
        with suppress(StoreUnavailable):  # Done later.
            await self.void(call_id)

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep_leases(self) -> None:
        async with self._client.bounded():
            dead = await self._leases.keep(self._holds.workspaces)
        ended = 0
        for lease in dead:
            ended += await self._interrupt(lease)
        if ended:
            log.warning("%d calls of a gateway that ended were interrupted", ended)

    async def _interrupt(self, lease: Lease) -> int:
        """End all holds of a dead process in one workspace; return how many there were."""
        async with self._client.bounded():
            found = await self._client.command("HVALS", keys_of(lease.workspace).holds)
        ended = 0
        for record in found:
            _, _, owner, row = record.split(":", 3)
            if owner == lease.owner:
                ended += await self._end(Booking(json.loads(row), from_wallet=False), "interrupted", 0)
        async with self._client.bounded():
            await self._leases.forget(lease)
        return ended

    async def _empty_outboxes(self) -> None:
        if self._state.owns_ledger:
            if self._leases.someone_left:
                await self._outbox.empty_all(stale_s=0)  # Also what a dead process had just read.
            elif self._upkeeps % _COLLECT_ALL_EVERY == 0:
                await self._outbox.empty_all()
            await self._outbox.collect()
        else:
            await self._outbox.empty_noted()
        self._upkeeps += 1
