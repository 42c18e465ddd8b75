"""``Alerts``: finds events once a second, and has them sent, in one process of all that share a ledger.

| an event | waits |
|---|---|
| while the ledger can be written | in the ledger's table ``alerts``, in the same transaction as its mark |
| of an outage of the store | in memory, at most ``sender.MAX_IN_MEMORY``, until it is sent or the ledger is back |

While nobody can lead, because the ledger is away, each process tells of that outage itself.

Nothing here is in the way of a call. Source: docs/alerts.md, docs/decisions/alerts-are-found-by-looking.md.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Final

from addon.alerts import events
from addon.alerts.detector import Detector
from addon.alerts.events import Event
from addon.alerts.found_events import FoundEvents
from addon.alerts.ledger_thread import LedgerThread
from addon.alerts.sender import FAULTS, Sender
from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.settings.settings import Settings
from addon.store.measured import MeasuredStore
from addon.store.money.alerts import NewAlert, count_waiting, enqueue
from addon.store.money.ledger import LedgerPlace
from addon.store.protocol import StoreUnavailable
from addon.telemetry.metrics import Metrics

log = logging.getLogger("tollgate.alerts")

LOOK_S: Final = 1.0
CHECK_S: Final = 5.0
"""How often the store is checked by a write, so that a full disk is noticed without a call."""


class Alerts:
    """The alerts of one process.

    ``settings`` returns the latest, ``faults`` a reason for each file that does not load. An outage that ends within
    ``patience_s`` is no event.
    """

    def __init__(
        self,
        place: LedgerPlace,
        store: MeasuredStore,
        metrics: Metrics,
        settings: Callable[[], Settings],
        faults: Callable[[], Mapping[str, str]],
        clock: Clock = SYSTEM_CLOCK,
        patience_s: float = 0,
    ) -> None:
        self._ledger = LedgerThread(place)
        self._patience_s = patience_s
        self._store = store
        self._metrics = metrics
        self._settings = settings
        self._faults = faults
        self._clock = clock
        self._detector = Detector(self._ledger, store, metrics, clock)
        self._gateway = socket.gethostname()
        self.sender = Sender(self._ledger, store, metrics, settings, clock)
        self._failed_at: datetime | None = None
        self._has_told = False
        self._check_s = float("-inf")
        self._has_failed = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start, on the running event loop. The ledger exists."""
        self.sender.log_missing_target()
        self._tasks = [
            asyncio.create_task(self._keep_looking(), name="alerts"),
            asyncio.create_task(self.sender.run(), name="alerts sending"),
        ]

    async def stop(self) -> None:
        """Stop. The next process sends the alerts that wait in the ledger."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.sender.close()
        await self._ledger.close()

    async def add(self, event: Event) -> None:
        """Send an event that was found elsewhere, once for each id. Raises ``StoreUnavailable``."""
        await self._save(FoundEvents([event]))

    async def _keep_looking(self) -> None:
        while True:
            try:
                await self.look()
                self._has_failed = False
            except FAULTS as error:
                self._detector.reread_all_counters()
                if not self._has_failed and self._store.outage is None:
                    log.warning("alerts can't be looked for: %s", error)
                self._has_failed = True
            except Exception:
                self._detector.reread_all_counters()
                if not self._has_failed:
                    log.exception("alerts can't be looked for")
                self._has_failed = True
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Find new events once, if this process is the leader. While nobody can lead, find an outage only."""
        try:
            leads = await self._ledger.become_leader()
        except StoreUnavailable:
            self._detector.forget()
            self._note_outage(is_mine=True)
            return
        if not leads:
            self._detector.forget()
            self._note_outage(is_mine=False)
            if self._store.outage is None:
                await self.sender.save_kept()
            return
        now_s = self._clock.monotonic_s()
        if now_s - self._check_s >= CHECK_S:
            self._check_s = now_s
            with suppress(StoreUnavailable):  # The store notes this.
                await self._store.check()
        self._note_outage(is_mine=True)
        if self._store.outage is None:
            await self.sender.save_kept()
            found = await self._detector.look(self._settings(), self._faults())
            await self._save(found)
            self._metrics.set_alerts_waiting(await self._ledger.read(count_waiting))

    def _note_outage(self, *, is_mine: bool) -> None:
        """Tell of an outage when it lasts, if it ``is_mine`` to tell, and of its end."""
        now, outage = self._clock.now(), self._store.outage
        if outage is None:
            if self._has_told and self._failed_at is not None:
                self._keep(events.store_recovered(self._failed_at, now))
            self._failed_at, self._has_told = None, False
            return
        if self._failed_at is None:
            self._failed_at = now
        has_lasted = (now - self._failed_at).total_seconds() >= self._patience_s
        if is_mine and has_lasted and not self._has_told:
            self._has_told = True
            self._keep(events.store_unavailable(outage, now))

    def _keep(self, event: Event) -> None:
        """Send an event of the store itself, without the ledger."""
        alert = event.pack(self._gateway)
        self._announce([alert])
        self.sender.keep(alert)

    async def _save(self, found: FoundEvents) -> None:
        if not found.events and not found.marks:
            return
        alerts = [event.pack(self._gateway) for event in found.events]
        is_sent = self._settings().alert_target is not None
        new, dropped = await self._ledger.write(enqueue, alerts, found.marks, is_sent=is_sent)
        if found.marks:
            self._detector.note_written(found.marks)
        self._announce(new)
        self.sender.note_dropped(dropped, "too many alerts wait")
        if new:
            self.sender.wake()

    def _announce(self, alerts: Iterable[NewAlert]) -> None:
        for alert in alerts:
            self._metrics.count_alert(alert.type)
            fields = {"event": "alert", "alert_id": alert.id, "alert_type": alert.type}
            log.warning("%s", alert.text, extra=fields)
