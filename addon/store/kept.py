"""What could not be written when it was due, until it can be: bookings of calls that ended, and holds to release."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from addon.store import Booking, IllegalRowError

log = logging.getLogger("tollgate.store")


class Kept:
    """In memory, each call once. It says once when it begins to fill, and when it is empty again."""

    def __init__(self) -> None:
        self.bookings: dict[str, Booking] = {}
        self.voids: set[str] = set()

    def keep(self, booking: Booking, reason: str) -> None:
        """Keep a booking as it is now."""
        if not self.bookings:
            log.error(
                "the ledger can't be written, calls are kept in memory: %s",
                reason,
                extra={"event": "ledger unavailable"},
            )
        call_id = str(booking.row["id"])
        self.bookings.setdefault(call_id, Booking(dict(booking.row), booking.from_wallet))

    async def write(
        self, settle: Callable[[Booking], Awaitable[None]], void: Callable[[str], Awaitable[None]]
    ) -> None:
        """Write all of it. What fails, with ``StoreUnavailable``, stays kept; what can never be written is logged."""
        while self.bookings:
            call_id, booking = next(iter(self.bookings.items()))
            try:
                await settle(booking)
            except IllegalRowError as error:
                log_lost(booking, str(error))
                self.voids.add(call_id)
            if self.bookings.pop(call_id, None) and not self.bookings:
                log.info("no call is kept in memory any more", extra={"event": "ledger recovered"})
        while self.voids:
            call_id = next(iter(self.voids))
            await void(call_id)
            self.voids.discard(call_id)

    def give_up(self, reason: str) -> None:
        """Log what is still kept."""
        for booking in self.bookings.values():
            log_lost(booking, reason)


def log_lost(booking: Booking, reason: str) -> None:
    """Leave enough in the log to book the call by hand."""
    named = ("id", "created_at", "workspace", "key_id", "model_slug", "mode", "status")
    counted = ("prompt_tokens", "completion_tokens", "wholesale_nanousd", "retail_nanousd")
    shown: dict[str, Any] = {name: booking.row.get(name) for name in named + counted}
    log.error("a ledger row is lost: %s: %s", reason, shown, extra={"event": "ledger row lost", "row": shown})
