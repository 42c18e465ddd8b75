"""Writes that failed and are tried again: the settlements of calls that ended, and holds to release."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from addon.store.protocol import IllegalRowError, Settlement, StoreUnavailable

log = logging.getLogger("tollgate.store")

MAX_PENDING = 100_000
"""How many settlements may be pending before new calls are refused."""


class PendingWrites:
    """The pending writes of one process, in memory, each call once.

    It logs when the first settlement comes, and when none is left.
    """

    def __init__(self) -> None:
        self.settlements: dict[str, Settlement] = {}
        self.voids: set[str] = set()
        self._failed: set[str] = set()

    def check_room(self) -> None:
        """Raise ``StoreUnavailable`` when no further call may start, because too many settlements are pending."""
        if len(self.settlements) >= MAX_PENDING:
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

    async def write_all(
        self, settle: Callable[[Settlement], Awaitable[None]], void: Callable[[str], Awaitable[None]]
    ) -> None:
        """Write everything, and log each row that can never be written. Raise the first ``StoreUnavailable``.

        A settlement that fails in another way stays pending and does not block the others.
        """
        for call_id, settlement in list(self.settlements.items()):
            if await self._settle(call_id, settlement, settle):
                self._failed.discard(call_id)
                if self.settlements.pop(call_id, None) and not self.settlements:
                    log.info("no call is kept in memory any more", extra={"event": "ledger recovered"})
        while self.voids:
            call_id = next(iter(self.voids))
            await void(call_id)
            self.voids.discard(call_id)

    async def _settle(
        self, call_id: str, settlement: Settlement, settle: Callable[[Settlement], Awaitable[None]]
    ) -> bool:
        """Try to settle a call. Return whether it needs no other try."""
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
            return False
        return True

    def log_lost(self, reason: str) -> None:
        """Log every settlement that is still pending."""
        for settlement in self.settlements.values():
            log_lost_row(settlement, reason)


def log_lost_row(settlement: Settlement, reason: str) -> None:
    """Log enough of the row to enter the call in the ledger by hand."""
    named = ("id", "created_at", "workspace", "key_id", "model_slug", "mode", "status")
    counted = ("prompt_tokens", "completion_tokens", "wholesale_nanousd", "retail_nanousd")
    shown: dict[str, Any] = {name: settlement.row.get(name) for name in named + counted}
    log.error("a ledger row is lost: %s: %s", reason, shown, extra={"event": "ledger row lost", "row": shown})
