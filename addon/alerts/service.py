"""``Alerts``: looks once a second, and sends what waits, in one process of all that share a ledger.

| an event | waits |
|---|---|
| while the ledger can be written | in the ledger's table ``alerts``, in the same transaction as its mark |
| of an outage of the store itself | in memory, at most ``MAX_IN_MEMORY``, until it is sent or the ledger is back |

Nothing here is in the way of a call. Source: docs/alerts.md, docs/decisions/alerts-are-found-by-looking.md.
"""

import asyncio
import logging
import socket
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from addon.alerts import events
from addon.alerts.alert_ledger import AlertLedger
from addon.alerts.delivery import Outcome, Webhook
from addon.alerts.event import Event
from addon.alerts.watch import Found, Watch
from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.settings.settings import Settings
from addon.store.ledger.alerts import (
    NewAlert,
    WaitingAlert,
    count_waiting,
    drop_old,
    enqueue,
    find_due,
    note_failed,
    note_sent,
)
from addon.store.measured import MeasuredStore
from addon.store.protocol import StoreUnavailable
from addon.telemetry.metrics import Metrics
from policies.utc_time import format_utc

log = logging.getLogger("tollgate.alerts")

LOOK_S: Final = 1.0
CHECK_S: Final = 5.0
"""How often the store is checked by a write, so that a full disk is noticed without a call."""
MAX_IN_MEMORY: Final = 100
MAX_BACK_OFF_S: Final = 300.0
MAX_AGE: Final = timedelta(days=1)
"""An older alert is dropped when it can't be sent, after ``MIN_ATTEMPTS``."""
MIN_ATTEMPTS: Final = 10
_AT_ONCE: Final = 20
_IDLE_S: Final = 5.0

_FAULTS = (OSError, sqlite3.Error, StoreUnavailable)


def back_off_s(failures: int) -> float:
    """Return the wait after so many failures in a row: 1, 2, 4, … seconds."""
    return min(2.0 ** min(failures - 1, 30), MAX_BACK_OFF_S)


@dataclass(slots=True)
class _Kept:
    """An alert in memory."""

    alert: NewAlert
    attempts: int = 0


class Alerts:
    """The alerts of one process.

    ``settings`` returns the latest, ``faults`` a reason for each file that does not load.
    """

    def __init__(
        self,
        database: Path,
        store: MeasuredStore,
        metrics: Metrics,
        settings: Callable[[], Settings],
        faults: Callable[[], Mapping[str, str]],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._ledger = AlertLedger(database)
        self._store = store
        self._metrics = metrics
        self._settings = settings
        self._faults = faults
        self._clock = clock
        self._watch = Watch(self._ledger, store, metrics, clock)
        self._gateway = socket.gethostname()
        self._kept: deque[_Kept] = deque(maxlen=MAX_IN_MEMORY)
        self._failed_at: datetime | None = None
        self._check_s = float("-inf")
        self._wake = asyncio.Event()
        self._webhook: Webhook | None = None
        self._failures = 0
        self._paused_until_s = float("-inf")
        self._has_failed = self._has_send_failed = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start, on the running event loop. The ledger exists."""
        self._log_missing_target()
        self._tasks = [
            asyncio.create_task(self._look_on(), name="alerts"),
            asyncio.create_task(self._send_on(), name="alerts sending"),
        ]

    async def stop(self) -> None:
        """Stop. What waits in the ledger is sent by the next process."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._webhook:
            await self._webhook.close()
        await self._ledger.close()

    # Looking.

    async def _look_on(self) -> None:
        while True:
            try:
                await self.look()
                self._has_failed = False
            except _FAULTS as error:
                self._watch.look_at_all()
                if not self._has_failed and self._store.outage is None:
                    log.warning("alerts can't be looked for: %s", error)
                self._has_failed = True
            except Exception:
                self._watch.look_at_all()
                if not self._has_failed:
                    log.exception("alerts can't be looked for")
                self._has_failed = True
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Find what is new, once, if this is the process that does so."""
        if not await self._ledger.lead():
            return
        now_s = self._clock.monotonic_s()
        if now_s - self._check_s >= CHECK_S:
            self._check_s = now_s
            with suppress(StoreUnavailable):  # The store notes this.
                await self._store.check()
        self._note_outage()
        if self._store.outage is None:
            await self._save_kept()
            found = await self._watch.look(self._settings(), self._faults())
            await self._save(found)
            self._metrics.set_alerts_waiting(await self._ledger.run(count_waiting))

    def _note_outage(self) -> None:
        now, outage = self._clock.now(), self._store.outage
        if outage is not None and self._failed_at is None:
            self._failed_at = now
            self._keep(events.store_unavailable(outage, now))
        elif outage is None and self._failed_at is not None:
            self._keep(events.store_recovered(self._failed_at, now))
            self._failed_at = None

    def _keep(self, event: Event) -> None:
        """Keep an event in memory, to be sent without the ledger."""
        alert = event.pack(self._gateway)
        self._announce([alert])
        if self._settings().alert_target is not None:
            self._kept.append(_Kept(alert))
            self._wake.set()

    async def _save_kept(self) -> None:
        """Move what waits in memory to the ledger. What is being sent now may be sent twice."""
        if self._kept:
            waiting = [one.alert for one in self._kept]
            await self._ledger.run(enqueue, waiting, {}, is_sent=True)
            self._kept.clear()

    async def _save(self, found: Found) -> None:
        if not found.events and not found.marks:
            return
        alerts = [event.pack(self._gateway) for event in found.events]
        is_sent = self._settings().alert_target is not None
        new, dropped = await self._ledger.run(enqueue, alerts, found.marks, is_sent=is_sent)
        self._watch.note_written(found.marks)
        self._announce(new)
        self._note_dropped(dropped, "too many alerts wait")
        if new:
            self._wake.set()

    def _announce(self, alerts: Iterable[NewAlert]) -> None:
        for alert in alerts:
            self._metrics.count_alert(alert.type)
            fields = {"event": "alert", "alert_id": alert.id, "alert_type": alert.type}
            log.warning("%s", alert.text, extra=fields)

    def _note_dropped(self, alerts: Sequence[NewAlert | WaitingAlert], reason: str) -> None:
        for alert in alerts:
            self._metrics.count_delivery("dropped")
            fields = {"event": "alert dropped", "alert_id": alert.id, "alert_type": alert.type}
            log.error("an alert is dropped: %s", reason, extra=fields)

    # Sending.

    async def _send_on(self) -> None:
        while True:
            pause_s = _IDLE_S
            self._wake.clear()
            try:
                pause_s = await self.send()
                self._has_send_failed = False
            except _FAULTS as error:
                if not self._has_send_failed and self._store.outage is None:
                    log.warning("alerts can't be sent: %s", error)
                self._has_send_failed = True
            except Exception:
                if not self._has_send_failed:
                    log.exception("alerts can't be sent")
                self._has_send_failed = True
            pause_s = min(pause_s, _IDLE_S)  # New settings may name another receiver.
            if self._failures:
                await asyncio.sleep(pause_s)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._wake.wait()

    async def send(self) -> float:
        """Send what is due, if this is the process that does so. Return the seconds until there may be more."""
        if self._ledger.is_leader and (webhook := await self._find_webhook()):
            return await self._send_due(webhook)
        return _IDLE_S

    async def _find_webhook(self) -> Webhook | None:
        """Return the client of the receiver in the settings, made again when these change."""
        settings = self._settings()
        target, proxy = settings.alert_target, settings.egress_proxy
        known = self._webhook
        if known and known.made_of == (target, proxy):
            return known
        self._webhook = None
        if known:
            await known.close()
            self._log_missing_target()
        if target:
            self._failures, self._paused_until_s = 0, float("-inf")
            self._webhook = await self._ledger.call(lambda: Webhook(target, proxy))
        return self._webhook

    async def _send_due(self, webhook: Webhook) -> float:
        """Send what is due, the oldest first, until the receiver fails. Return the pause after that."""
        if self._pause_s > 0:
            return self._pause_s
        while self._kept and not self._pause_s > 0:
            await self._send_kept(webhook, self._kept[0])
        while self._store.outage is None and not self._pause_s > 0:
            due = await self._ledger.run(find_due, format_utc(self._clock.now()), _AT_ONCE)
            if not due:
                return LOOK_S
            for alert in due:
                outcome = await self._attempt(webhook, alert.body, alert.attempts + 1)
                await self._note_outcome(alert, outcome)
                if self._pause_s > 0:
                    break
        return self._pause_s if self._pause_s > 0 else _IDLE_S

    @property
    def _pause_s(self) -> float:
        """How long the receiver rests after it failed."""
        return self._paused_until_s - self._clock.monotonic_s()

    async def _send_kept(self, webhook: Webhook, kept: _Kept) -> None:
        kept.attempts += 1
        outcome = await self._attempt(webhook, kept.alert.body, kept.attempts)
        is_done = outcome.is_taken or outcome.is_event_refused
        if is_done and self._kept and self._kept[0] is kept:  # The ledger may have it by now.
            self._kept.popleft()
            if outcome.is_event_refused:
                self._note_dropped([kept.alert], f"the webhook refuses it: {outcome.answer}")

    async def _attempt(self, webhook: Webhook, packed: str, attempt: int) -> Outcome:
        outcome = await webhook.send(packed, self._clock.now(), attempt)
        self._metrics.count_delivery("sent" if outcome.is_taken else "failed")
        if outcome.is_taken or outcome.is_event_refused:
            if self._failures:
                log.info("alerts are delivered again", extra={"event": "alerts delivered again"})
            self._failures = 0
        else:
            self._failures += 1
            self._paused_until_s = self._clock.monotonic_s() + back_off_s(self._failures)
        if not outcome.is_taken and (self._failures == 1 or outcome.is_event_refused):
            fields = {"event": "alerts not delivered"}
            log.warning("an alert can't be delivered, it is tried again: %s", outcome.answer, extra=fields)
        return outcome

    async def _note_outcome(self, alert: WaitingAlert, outcome: Outcome) -> None:
        now = self._clock.now()
        moment = format_utc(now)
        if outcome.is_taken:
            await self._ledger.run(note_sent, alert.id, moment, outcome.answer)
            return
        failures = alert.attempts + 1 if outcome.is_event_refused else self._failures
        next_at = format_utc(now + timedelta(seconds=back_off_s(failures)))
        await self._ledger.run(note_failed, alert.id, outcome.answer, next_at)
        oldest = format_utc(now - MAX_AGE)
        # An alert that is old because no gateway ran gets its attempts too.
        if alert.created_at < oldest and alert.attempts + 1 >= MIN_ATTEMPTS:
            only = alert.id if outcome.is_event_refused else None
            dropped = await self._ledger.run(drop_old, oldest, moment, only)
            self._note_dropped(dropped, f"it could not be delivered within a day; last: {outcome.answer}")

    def _log_missing_target(self) -> None:
        settings = self._settings()
        if settings.conf.alerts.webhook and settings.alert_target is None:
            log.error(
                "alerts are not sent: an environment variable that [alerts] names is not set",
                extra={"event": "alerts not sent"},
            )
