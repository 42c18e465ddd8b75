"""Bookings that Redis has and may yet lose: kept in the process until they are sure to be in the ledger.

What Redis has waits there for the ledger, and a Redis that loses everything loses that too. So each booking is kept for
a minute, and until the ledger has it where this machine has that; after a loss all of them are written again, by their
calls' ids, so never twice.
"""

import json
from collections.abc import Awaitable, Callable, Collection
from itertools import islice

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.store.protocol import Settlement

KEEP_S = 60.0
"""Redis's own disk, and its replicas, have had all that is older, where it has any."""
MAX_BOOKINGS = 100_000
_MOST_AT_ONCE = 5_000
"""How many are looked up in the ledger at a time."""


class UnconfirmedCalls:
    """In memory, each call once, as its outbox has it; the oldest go first."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._packed: dict[str, tuple[float, str]] = {}

    def add(self, call_id: str, packed: str) -> None:
        """Keep a booking that Redis has taken just now."""
        self._packed.pop(call_id, None)
        while len(self._packed) >= MAX_BOOKINGS:
            del self._packed[next(iter(self._packed))]
        self._packed[call_id] = (self._clock.monotonic_s(), packed)

    def due(self) -> list[str]:
        """Return calls that have been kept for long enough, if the ledger has them."""
        before_s = self._clock.monotonic_s() - KEEP_S
        oldest = islice(self._packed.items(), _MOST_AT_ONCE)
        return [call_id for call_id, (kept_s, _) in oldest if kept_s <= before_s]

    def forget(self, call_ids: Collection[str]) -> None:
        """Let go of these."""
        for call_id in call_ids:
            self._packed.pop(call_id, None)

    def settlements(self) -> list[Settlement]:
        """Return all of them, oldest first."""
        return [Settlement(*json.loads(packed)) for _, packed in self._packed.values()]

    async def write_again(self, settle: Callable[[Settlement], Awaitable[None]]) -> None:
        """Settle all of them once more; those that Redis knows stay as they are."""
        for _, packed in list(self._packed.values()):
            await settle(Settlement(*json.loads(packed)))
