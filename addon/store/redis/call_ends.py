"""The ends of calls in Redis. Each releases the hold, counts the cost, and puts the row into the outbox, once."""

import json
from datetime import UTC, datetime

from addon.store.protocol import Settlement
from addon.store.redis.client import RedisClient
from addon.store.redis.keys import ENDED_S, INTERRUPTED_S, call_counters, keys_of
from addon.store.redis.leases import Lease, Leases
from addon.store.redis.outbox import Outbox, pack_call
from addon.store.redis.scripts import SETTLE
from addon.store.redis.state import RedisState
from addon.store.redis.unconfirmed import UnconfirmedCalls


class CallEnds:
    """Ends calls of this process, and those of dead ones."""

    def __init__(
        self,
        client: RedisClient,
        state: RedisState,
        leases: Leases,
        unconfirmed: UnconfirmedCalls,
        outbox: Outbox,
    ) -> None:
        self._client = client
        self._state = state
        self._leases = leases
        self._unconfirmed = unconfirmed
        self._outbox = outbox

    async def end(self, settlement: Settlement, outcome: str, paid_nanousd: int) -> bool:
        """End a call. Return whether it had not ended before."""
        row = settlement.row
        created_at = datetime.fromisoformat(row["created_at"]).astimezone(UTC)
        counters = call_counters(row["workspace"], row["key_id"], created_at.date())
        keys = keys_of(row["workspace"])
        names = (keys.state, keys.holds, keys.ended_call(row["id"]), keys.outbox, *counters.keys)
        cost = (row["retail_nanousd"], paid_nanousd)
        remembered_s = INTERRUPTED_S if outcome == "interrupted" else ENDED_S
        packed = pack_call(settlement)
        answer = await self._state.run(
            SETTLE,
            row["workspace"],
            names,
            *(row["id"], outcome, *cost, packed, remembered_s, *counters.ttl_s),
        )
        self._unconfirmed.add(row["id"], packed)
        self._outbox.schedule(row["workspace"])
        return bool(answer == "done")

    async def interrupt(self, lease: Lease) -> int:
        """Settle all holds of a dead process in one workspace. Return how many there were."""
        async with self._client.timeout():
            found = await self._client.command("HVALS", keys_of(lease.workspace).holds)
        ended = 0
        for record in found:
            _, _, owner, row = record.split(":", 3)
            if owner == lease.owner:
                ended += await self.end(Settlement(json.loads(row), from_wallet=False), "interrupted", 0)
        async with self._client.timeout():
            await self._leases.forget(lease)
        return ended
