"""The counts of refused calls of one process, until they are written.

They are written in batches with an id. A batch that may or may not have been written is written again with the same id,
which changes nothing the second time. So each refusal counts once, whatever fails in between.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import Final, NamedTuple

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from policies.exchange import ApiName

log = logging.getLogger("tollgate.store")

MAX_GROUPS: Final = 10_000
"""How many groups may wait to be written. More refusals are counted by hour, code and API alone."""
BATCH_GROUPS: Final = 500
"""How many groups one transaction writes, so that it takes about a millisecond."""

_HOUR_DIGITS: Final = len("2026-01-31T12")


class RefusalGroup(NamedTuple):
    """Refusals that are counted together. ``workspace`` and ``key_id`` are empty where no valid key was sent."""

    hour: str
    workspace: str
    key_id: str
    code: str
    api: ApiName = "chat"


class RefusalBatch(NamedTuple):
    """Counts that are written together. Of two writes with one ``id``, the second has no effect."""

    id: str
    counts: Mapping[RefusalGroup, int]


type WriteBatch = Callable[[RefusalBatch], Awaitable[None]]


class RefusalCounts:
    """The counts that wait. ``add`` never waits and never fails; ``flush`` belongs to the event loop of the store."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._counts: dict[RefusalGroup, int] = {}
        self._batch: RefusalBatch | None = None
        """The batch that is being written, or that may have been written."""
        self._flushing = asyncio.Lock()

    def add(self, workspace: str, key_id: str, code: str, api: ApiName = "chat") -> None:
        """Count a refused call of this hour."""
        hour = self._clock.now().isoformat()[:_HOUR_DIGITS]
        group = RefusalGroup(hour, workspace, key_id, code, api)
        if group not in self._counts and len(self._counts) >= MAX_GROUPS:
            group = RefusalGroup(hour, "", "", code, api)
        self._counts[group] = self._counts.get(group, 0) + 1

    async def flush(self, write: WriteBatch) -> None:
        """Write what waits. Counts that ``write`` raises for stay, for the next time."""
        if not self._counts and self._batch is None:
            return
        async with self._flushing:
            # A flood that goes on must not keep this from ending.
            for _ in range(len(self._counts) // BATCH_GROUPS + 2):
                if self._batch is None and not self._counts:
                    return
                self._batch = self._batch or self._take()
                await write(self._batch)
                self._batch = None

    def log_lost(self, reason: str) -> None:
        """Log how many refused calls the ledger will not count."""
        batch = self._batch.counts if self._batch else {}
        if lost := sum(self._counts.values()) + sum(batch.values()):
            log.error("%d refused calls are not counted in the ledger: %s", lost, reason)

    def _take(self) -> RefusalBatch:
        groups = list(islice(self._counts, BATCH_GROUPS))
        return RefusalBatch(secrets.token_hex(8), {group: self._counts.pop(group) for group in groups})
