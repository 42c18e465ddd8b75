"""Writes that failed and are tried again: the settlements of calls that ended, and holds to release."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from itertools import batched, islice
from typing import Any, NoReturn

from addon.store.protocol import IllegalRowError, Settlement, StoreUnavailable

log = logging.getLogger("tollgate.store")

MAX_PENDING = 100_000
"""How many settlements may be pending before new calls are refused."""
AT_ONCE = 64
"""How many of them are written at once."""


class PendingWrites:
    """The pending writes of one process, in memory, each call once.

    It logs when the first settlement comes, and when none is left.
    """

    def __init__(self) -> None:
        self.settlements: dict[str, Settlement] = {}
        self.voids: set[str] = set()
        self.is_full = False
        """Whether so many settlements are pending that no further call may start."""
        self._failed: set[str] = set()

    def refuse(self) -> NoReturn:
        """Raise ``StoreUnavailable`` for a call that may not start, because it ``is_full``."""
        raise StoreUnavailable(f"{MAX_PENDING} calls wait to be recorded")

    def add(self, settlement: Settlement, error: BaseException) -> None:
        """Keep a copy of a settlement that can't be written because of ``error``.

        The text of ``error`` is logged only when it is a ``StoreUnavailable``: another may quote the row.
        """
        reason = str(error) if isinstance(error, StoreUnavailable) else type(error).__name__
        if not self.settlements:
            log.error(
                "the ledger can't be written, calls are kept in memory: %s",
                reason,
                extra={"event": "ledger unavailable"},
            )
        call_id = str(settlement.row["id"])
        self.settlements.setdefault(call_id, Settlement(dict(settlement.row), settlement.from_wallet))
        self.is_full = len(self.settlements) >= MAX_PENDING

    async def write_all(
        self, settle: Callable[[Settlement], Awaitable[None]], void: Callable[[str], Awaitable[None]]
    ) -> None:
        """Write everything, and log each row that can never be written. Raise the first ``StoreUnavailable``.

        A settlement that fails in another way stays pending and does not block the others.
        """
        for settlements in batched(list(self.settlements.values()), AT_ONCE):
            await _all_of([self._settle(settlement, settle) for settlement in settlements])
        while self.voids:
            await _all_of([self._void(call_id, void) for call_id in islice(self.voids, AT_ONCE)])

    async def _void(self, call_id: str, void: Callable[[str], Awaitable[None]]) -> None:
        await void(call_id)
        self.voids.discard(call_id)

    async def _settle(self, settlement: Settlement, settle: Callable[[Settlement], Awaitable[None]]) -> None:
        """Try to settle a call, and forget it when it needs no other try."""
        call_id = str(settlement.row["id"])
        try:
            await settle(settlement)
        except StoreUnavailable:
            raise
        except IllegalRowError as error:
            log_lost_row(settlement, str(error))
            self.voids.add(call_id)
        except Exception:
            if call_id not in self._failed:
                log.exception("a call that is kept in memory can't be recorded", extra={"id": call_id})
            self._failed.add(call_id)
            return
        self._failed.discard(call_id)
        if self.settlements.pop(call_id, None) and not self.settlements:
            log.info("no call is kept in memory any more", extra={"event": "ledger recovered"})
        self.is_full = len(self.settlements) >= MAX_PENDING

    def log_lost(self, reason: str) -> None:
        """Log every settlement that is still pending."""
        for settlement in self.settlements.values():
            log_lost_row(settlement, reason)


async def _all_of(writes: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Await all ``writes`` at once, and then raise the first error."""
    for error in await asyncio.gather(*writes, return_exceptions=True):
        if error is not None:
            raise error


def log_lost_row(settlement: Settlement, reason: str) -> None:
    """Log enough of the row to enter the call in the ledger by hand."""
    named = ("id", "created_at", "workspace", "key_id", "model_slug", "mode", "status")
    counted = ("prompt_tokens", "completion_tokens", "wholesale_nanousd", "retail_nanousd")
    shown: dict[str, Any] = {name: settlement.row.get(name) for name in named + counted}
    log.error("a ledger row is lost: %s: %s", reason, shown, extra={"event": "ledger row lost", "row": shown})
