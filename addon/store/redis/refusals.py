"""The counts of refused calls in Redis, on their way to the ledger.

Every machine adds to one hash, and the ledger's machine empties it. Both steps may be repeated: a batch has an id, and
the second time changes nothing.
"""

import json
import secrets
from typing import Final

from addon.store.money.refusal_counts import BATCH_GROUPS, RefusalBatch, RefusalGroup
from addon.store.money.sqlite.file import LedgerFile
from addon.store.money.sqlite.refusals import record_refusals
from addon.store.protocol import TIMEOUT_S
from addon.store.redis.client import RedisClient
from addon.store.redis.keys import REFUSALS, REFUSALS_TAKEN, refusal_batch
from addon.store.redis.scripts import ADD_REFUSALS, FORGET_REFUSALS, TAKE_REFUSALS

BATCH_KEPT_S: Final = 3600
"""How long Redis remembers the id of a batch. Its process repeats it within seconds."""
_MAX_ROUNDS: Final = 1_000


class SharedRefusals:
    """The counts of all machines in Redis. Its methods raise ``StoreUnavailable``."""

    def __init__(self, client: RedisClient, file: LedgerFile) -> None:
        self._client = client
        self._file = file

    async def add(self, batch: RefusalBatch) -> None:
        """Add a batch to the counts in Redis, once."""
        counts = [word for group, count in batch.counts.items() for word in (json.dumps(group), count)]
        await self._client.run(ADD_REFUSALS, [REFUSALS, refusal_batch(batch.id)], BATCH_KEPT_S, *counts)

    async def move(self, timeout_s: float = TIMEOUT_S) -> None:
        """Move the counts in Redis to the ledger of this machine. Any number of processes may do so at once."""
        for _ in range(_MAX_ROUNDS):
            names = [REFUSALS, REFUSALS_TAKEN]
            batch_id, *found = await self._client.run(
                TAKE_REFUSALS, names, secrets.token_hex(8), BATCH_GROUPS
            )
            if not batch_id:
                return
            counts = {
                RefusalGroup(*json.loads(group)): int(count)
                for group, count in zip(found[::2], found[1::2], strict=True)
            }
            await record_refusals(self._file, RefusalBatch(batch_id, counts), timeout_s)
            await self._client.run(FORGET_REFUSALS, [REFUSALS_TAKEN], batch_id)
