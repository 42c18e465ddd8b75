"""Where calls end: each that was admitted is in flight until it is settled, refused or abandoned, once.

A call that was sent upstream gets its ledger row, and every call its log line.
"""

import asyncio
import logging
import time
from typing import Any

from addon.call import Call
from addon.exchange import MOVES, Stage
from addon.log import log_call, log_refusal
from addon.settlement import outcome
from addon.store import IllegalRowError, Store, StoreUnavailable

log = logging.getLogger("tollgate.books")

CLIENT_CLOSED_REQUEST = 499
"""The status of a call whose client left before its answer was whole, as nginx has it."""
CLIENT_DISCONNECTED = "client_disconnected"
INTERRUPTED = "interrupted"
"""The gateway stopped, and did not wait for this call any longer."""


class Books:
    """The calls in flight, and the way out of each."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.in_flight: set[str] = set()
        self.idle = asyncio.Event()
        self.idle.set()
        self.cutting_off = False
        self._bookings: set[asyncio.Task[None]] = set()

    def open(self, call: Call) -> None:
        """The call was admitted."""
        self.in_flight.add(call.exchange.id)
        self.idle.clear()

    def settle(self, call: Call, status: int, error_code: str | None = None) -> None:
        """End a call that was dispatched, once: ``response``, ``attempt_failed`` and ``error`` may all ask for it.

        Its row and its log line are made when its last bytes are on their way: the client need not wait for them.
        """
        if call.exchange.stage is Stage.DISPATCHED:
            call.exchange = call.exchange.advance(Stage.ANSWERED, status=status, error_code=error_code)
            asyncio.get_running_loop().call_soon(self._close, call)

    def refuse(self, call: Call, status: int, error_code: str) -> None:
        """End a call that the gateway turned down, unless it was sent upstream or has ended."""
        self._end_unsent(call, Stage.REFUSED, status, error_code)

    def abandon(self, call: Call) -> None:
        """End a call whose client left, or was cut off, wherever it stands."""
        why = INTERRUPTED if self.cutting_off else CLIENT_DISCONNECTED
        self.settle(call, CLIENT_CLOSED_REQUEST, why)
        self._end_unsent(call, Stage.ABANDONED, CLIENT_CLOSED_REQUEST, why)

    def _end_unsent(self, call: Call, stage: Stage, status: int, error_code: str) -> None:
        if stage in MOVES[call.exchange.stage]:
            call.exchange = call.exchange.advance(stage, status=status, error_code=error_code)
            self._leave(call)
            log_refusal(call.exchange, time.monotonic())

    def _close(self, call: Call) -> None:
        now_s = time.monotonic()
        try:
            call.exchange = call.exchange.advance(Stage.SETTLED, **outcome(call))
            log_call(call.exchange, now_s)
            booking = asyncio.get_running_loop().create_task(self._book(call.exchange.ledger_row(now_s)))
        finally:
            self._leave(call)
        if not booking.done():
            self._bookings.add(booking)
            booking.add_done_callback(self._bookings.discard)

    async def _book(self, row: dict[str, Any]) -> None:
        """Write a row. The answer is the client's whether that can be done now or not."""
        try:
            await self.store.settle(row)
        except StoreUnavailable as error:
            log.error("the ledger can't be written, the row waits: %s", error)
        except IllegalRowError:
            log.exception("a row that the ledger can't hold")

    def _leave(self, call: Call) -> None:
        self.in_flight.discard(call.exchange.id)
        if not self.in_flight:
            self.idle.set()
