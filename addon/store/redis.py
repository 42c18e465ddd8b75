"""``RedisStore``: limits, holds and spend in Redis, for gateways on any number of machines; the ledger in SQLite.

Each step is one script, which Redis runs as one. A step that was not answered in time may have been done, or may be
done yet: ``take`` then has cost a token, ``settle`` is repeated, which changes nothing the second time, and a hold is
voided, before or after it comes about. Source: docs/limits.md.
"""

import asyncio
import json
import logging
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from pydantic import SecretStr

from addon.store import Booking, HoldRequest, IllegalRowError, StoreUnavailable, WalletEntry
from addon.store import sqlite_money as money
from addon.store.kept import Kept
from addon.store.leases import Lease, Leases
from addon.store.ledger_file import LedgerFile, translated
from addon.store.outbox import Outbox, Proofs, pack_booking, pack_entry
from addon.store.owner import Owner
from addon.store.redis_client import RedisClient, Script, was_answered
from addon.store.redis_keys import ENDED_S, CallCounters, call_counters, keys_of
from addon.store.redis_state import RedisState
from policies.bucket import GROUPS, WINDOW_US, slice_us
from policies.limits import Limit, wallet_counter
from policies.spend import PICOUSD_PER_NANOUSD, Denial, DenialReason, Hold, Want, place_hold

log = logging.getLogger("tollgate.store")

TAKE, HOLD, SETTLE, VOID, CREDIT = map(Script.load, ("take", "hold", "settle", "void", "credit"))

LARGEST_EXACT = 2**53
"""What a script can count to: its numbers are doubles."""
LARGEST_TOKEN_PICOUSD = LARGEST_EXACT // 10
"""A division goes digit by digit: ten times a rest must be exact, too."""

_PATIENT_S = 2.0  # While closing.
_COLLECT_ALL_EVERY = 30  # In calls of ``upkeep``.


@dataclass(frozen=True, slots=True)
class _Held:
    """What it takes to release a hold."""

    workspace: str
    counters: CallCounters


class RedisStore:
    """A ``Store`` in the Redis at ``url``, with the ledger in the file ``path``.

    Raises ``StoreUnavailable`` where the file can't be opened. Redis is asked from the first call on.
    """

    def __init__(self, path: Path, url: SecretStr) -> None:
        self._kept = Kept()
        self._held: dict[str, _Held] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._upkeeps = 0
        with ExitStack() as half_open, translated(path):
            self._client = RedisClient(url)
            self._file = LedgerFile(path)
            half_open.callback(self._file.close)
            self._owner = Owner(path.with_name(f"{path.name}-owners"))
            half_open.pop_all()
        self._file.hurry()
        self._proofs = Proofs()
        self._leases = Leases(self._client, self._owner)
        self._state = RedisState(self._client, self._file)
        self._outbox = Outbox(self._client, self._file, self._state)

    async def take(self, workspace: str, limit_rpm: int) -> bool:
        """See ``Store.take``."""
        keys = keys_of(workspace)
        bucket = (limit_rpm, WINDOW_US, slice_us(limit_rpm), GROUPS + 1)
        async with self._client.bounded():
            return bool(await self._run(TAKE, workspace, (keys.state, keys.takes), *bucket) == "taken")

    async def hold(self, request: HoldRequest) -> Hold | Denial:
        """See ``Store.hold``."""
        request = replace(request, want=exact(request.want, request.limits))
        counters = call_counters(request.workspace, request.key_id, request.created_at.date())
        self._held[request.id] = _Held(request.workspace, counters)
        try:
            async with self._client.bounded():
                outcome, *found = await self._place(request, counters)
        except BaseException as error:
            if isinstance(error, StoreUnavailable) and was_answered(error):
                del self._held[request.id]
            else:  # Whether it was placed can't be known.
                self._beside(self._void_unless_settled(request.id))
            raise
        if outcome == "held":
            return Hold(*map(int, found))
        del self._held[request.id]
        if outcome == "denied":
            return Denial(cast(DenialReason, found[0]))
        raise StoreUnavailable(f"a call can't be held: {outcome}")

    async def settle(self, booking: Booking) -> None:
        """See ``Store.settle``."""
        try:
            booking = self._proofs.prove(booking)
        except IllegalRowError:
            with suppress(StoreUnavailable):  # Done later.
                await self.void(str(booking.row.get("id")))
            raise
        try:
            await self._settle(booking)
        except StoreUnavailable as error:
            self._kept.keep(booking, str(error))
            raise

    async def void(self, call_id: str) -> None:
        """See ``Store.void``."""
        try:
            await self._void(call_id)
        except StoreUnavailable:
            self._kept.voids.add(call_id)
            raise

    async def credit(self, entry: WalletEntry) -> bool:
        """See ``Store.credit``. Raises ``IllegalRowError`` for an entry that can't be written."""
        self._proofs.prove_entry(entry)
        keys = keys_of(entry.workspace)
        names = (keys.state, keys.credits, keys.outbox, keys.counter(wallet_counter(entry.workspace)))
        async with self._client.bounded():
            answer = await self._run(
                CREDIT, entry.workspace, names, entry.id, -entry.amount_nanousd, pack_entry(entry)
            )
        self._outbox.note(entry.workspace)
        return bool(answer == "new")

    async def upkeep(self) -> None:
        """See ``Store.upkeep``."""
        async with self._client.bounded():
            await self._state.check()
        await self._kept.write(self._settle, self._void)
        await self._keep_leases()
        await self._empty_outboxes()

    async def check(self) -> None:
        """See ``Store.check``."""
        async with self._client.bounded():
            await self._state.check()
        await self._kept.write(self._settle, self._void)
        await self._outbox.empty_noted()

    async def close(self) -> None:
        """See ``Store.close``."""
        if not self._owner.is_open:
            return
        try:
            async with self._client.bounded(_PATIENT_S):
                await asyncio.gather(*self._tasks)
                await self._kept.write(self._settle, self._void)
                await self._outbox.close()
                await self._outbox.empty_noted()
        except StoreUnavailable as error:
            self._kept.give_up(str(error))
        self._owner.close()
        await self._client.close()
        self._proofs.close()
        self._file.close()

    async def _run(self, script: Script, workspace: str, keys: Sequence[str], *arguments: str | int) -> Any:
        """Run a script on a workspace whose state is there, or can be made."""
        for is_last in (False, True):
            answer = await self._client.run(script, keys, await self._state.id(), *arguments)
            if answer not in ("missing", ["missing"]):
                return answer
            self._leases.mistrust()
            if not is_last:
                await self._state.resolve(workspace)
        raise StoreUnavailable("the state in Redis comes and goes")

    async def _place(self, request: HoldRequest, counters: CallCounters) -> Sequence[str]:
        keys = keys_of(request.workspace)
        names = [keys.state, keys.holds, keys.ended_call(request.id), *counters.keys]
        limits: list[str | int] = []
        for limit in request.limits:
            name = keys.counter(limit.counter)
            if name not in names:
                names.append(name)
            limits += (limit.kind, names.index(name) + 1, limit.most)
        want, row = request.want, json.dumps(money.storable(request.interrupted_row))
        wanted = (want.prompt_nanousd, want.token_picousd, want.cap_tokens, int(want.is_protected))
        for anew in (False, True):
            end_us = await self._leases.end_us(request.workspace, anew=anew)
            first = (request.id, self._leases.owner, end_us, row, *wanted)
            counted = (len(counters.keys), *counters.lives_s)
            answer: Sequence[str] = await self._run(HOLD, request.workspace, names, *first, *counted, *limits)
            if answer != ["lease"]:
                return answer
        return ["its lease has ended"]

    async def _settle(self, booking: Booking) -> None:
        row = booking.row
        await self._end(booking, "settled", row["retail_nanousd"] if booking.from_wallet else 0)
        self._held.pop(row["id"], None)

    async def _end(self, booking: Booking, outcome: str, paid_nanousd: int) -> bool:
        """End a call, once; return whether this was it."""
        row = booking.row
        created_at = datetime.fromisoformat(row["created_at"]).astimezone(UTC)
        counters = call_counters(row["workspace"], row["key_id"], created_at.date())
        keys = keys_of(row["workspace"])
        names = (keys.state, keys.holds, keys.ended_call(row["id"]), keys.outbox, *counters.keys)
        cost = (row["retail_nanousd"], paid_nanousd)
        async with self._client.bounded():
            answer = await self._run(
                SETTLE,
                row["workspace"],
                names,
                *(row["id"], outcome, *cost, pack_booking(booking), ENDED_S, *counters.lives_s),
            )
        self._outbox.note(row["workspace"])
        return bool(answer == "done")

    async def _void(self, call_id: str) -> None:
        held = self._held.get(call_id)
        if held is None:
            return
        keys = keys_of(held.workspace)
        names = (keys.state, keys.holds, keys.ended_call(call_id), *held.counters.keys)
        async with self._client.bounded():
            await self._run(VOID, held.workspace, names, call_id, ENDED_S)
        self._held.pop(call_id, None)

    async def _void_unless_settled(self, call_id: str) -> None:
        with suppress(StoreUnavailable):  # Done later.
            await self.void(call_id)

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep_leases(self) -> None:
        async with self._client.bounded():
            dead = await self._leases.keep({held.workspace for held in self._held.values()})
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
            if self._upkeeps % _COLLECT_ALL_EVERY == 0:
                await self._outbox.empty_all()
            await self._outbox.collect()
        else:
            await self._outbox.empty_noted()
        self._upkeeps += 1


def exact(want: Want, limits: Sequence[Limit]) -> Want:
    """Return what a script can count exactly and decides the same: what no limit bounds is decided here.

    Raises ``StoreUnavailable`` where it can't be done: millions of dollars for a prompt, or for a thousand tokens.
    """
    hold = place_hold(want, (), {})
    if isinstance(hold, Hold) and all(limit.kind == "request_cap" for limit in limits):
        want = replace(want, prompt_nanousd=hold.amount_nanousd, token_picousd=0)
    elif want.is_protected and want.token_picousd:
        # There is never more room than this.
        most_tokens = (LARGEST_EXACT - want.prompt_nanousd) * PICOUSD_PER_NANOUSD // want.token_picousd
        want = replace(want, cap_tokens=min(want.cap_tokens, max(most_tokens, 1)))
    thousandths = want.cap_tokens * (PICOUSD_PER_NANOUSD if want.token_picousd else 1)
    is_exact = max(want.prompt_nanousd, thousandths) < LARGEST_EXACT
    if not is_exact or want.token_picousd >= LARGEST_TOKEN_PICOUSD:
        raise StoreUnavailable("a call may cost more than can be counted exactly in Redis")
    return want
