"""Settled calls that Redis may still lose: this process keeps them until they are certain to be in the ledger.

A settled call waits in Redis for the ledger. A Redis that loses its data loses this call too. So each call is kept for
a minute, and on the ledger's machine until the ledger has it. After a loss all of them are settled again. Their ids
keep them from counting twice.
"""

import json
from collections.abc import Awaitable, Callable, Collection
from itertools import islice

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.store.protocol import Settlement

KEEP_S = 60.0
"""After this time, a call is also on the disk and the replicas of Redis, if it has them."""
MAX_CALLS = 100_000
_MAX_LOOKED_UP = 5_000
"""The most calls that one step looks up in the ledger."""


class UnconfirmedCalls:
    """The calls in memory, each once, in the format of an outbox entry. The oldest is removed first."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._packed: dict[str, tuple[float, str]] = {}

    def add(self, call_id: str, packed: str) -> None:
        """Keep a settlement that Redis has just accepted."""
        self._packed.pop(call_id, None)
        while len(self._packed) >= MAX_CALLS:
            del self._packed[next(iter(self._packed))]
        self._packed[call_id] = (self._clock.monotonic_s(), packed)

    def due(self) -> list[str]:
        """Return the ids of calls that are older than ``KEEP_S``."""
        before_s = self._clock.monotonic_s() - KEEP_S
        oldest = islice(self._packed.items(), _MAX_LOOKED_UP)
        return [call_id for call_id, (kept_s, _) in oldest if kept_s <= before_s]

    def forget(self, call_ids: Collection[str]) -> None:
        """Remove these calls."""
        for call_id in call_ids:
            self._packed.pop(call_id, None)

    def settlements(self) -> list[Settlement]:
        """Return all settlements, the oldest first."""
        return [Settlement(*json.loads(packed)) for _, packed in self._packed.values()]

    async def write_again(self, settle: Callable[[Settlement], Awaitable[None]]) -> None:
        """Settle all of them again. Those that Redis still has stay as they are."""
        for _, packed in list(self._packed.values()):
            await settle(Settlement(*json.loads(packed)))
