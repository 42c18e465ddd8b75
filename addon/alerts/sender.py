"""``Sender``: sends the alerts that wait to the webhook, one at a time, and tries again after a failure.

Alerts wait in the ledger's table ``alerts``. Those of an outage of the store wait in memory. Source: docs/alerts.md.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from addon.alerts.ledger_thread import LedgerThread
from addon.alerts.webhook import Outcome, Webhook
from addon.runtime.clock import Clock
from addon.settings.settings import Settings
from addon.store.measured import MeasuredStore
from addon.store.money.alerts import (
    NewAlert,
    WaitingAlert,
    drop_old,
    enqueue,
    find_due,
    note_failed,
    note_sent,
)
from addon.store.protocol import StoreUnavailable
from addon.telemetry.metrics import Metrics
from policies.utc_time import format_utc

log = logging.getLogger("tollgate.alerts")

MAX_IN_MEMORY: Final = 100
MAX_BACK_OFF_S: Final = 300.0
MAX_AGE: Final = timedelta(days=1)
"""An older alert is dropped when it can't be sent, after ``MIN_ATTEMPTS``."""
MIN_ATTEMPTS: Final = 10
_BATCH: Final = 20
"""How many due alerts are read from the ledger at once."""
_IDLE_S: Final = 5.0
_NEXT_LOOK_S: Final = 1.0
"""The wait after the last alert that is due."""

FAULTS: Final = (OSError, StoreUnavailable)
"""Faults of the ledger and the store, which end by themselves."""


def back_off_s(failures: int) -> float:
    """Return the wait after so many failures in a row: 1, 2, 4, … seconds."""
    return min(2.0 ** min(failures - 1, 30), MAX_BACK_OFF_S)


@dataclass(slots=True)
class _KeptAlert:
    """An alert in memory."""

    alert: NewAlert
    attempts: int = 0


class Sender:
    """Sends the alerts of the ledger in the process that leads, and those in memory in each.

    ``settings`` returns the latest.
    """

    def __init__(
        self,
        ledger: LedgerThread,
        store: MeasuredStore,
        metrics: Metrics,
        settings: Callable[[], Settings],
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._metrics = metrics
        self._settings = settings
        self._clock = clock
        self._kept: deque[_KeptAlert] = deque(maxlen=MAX_IN_MEMORY)
        self._wake = asyncio.Event()
        self._webhook: Webhook | None = None
        self._failures = 0
        self._paused_until_s = float("-inf")
        self._has_failed = False

    async def run(self) -> None:
        """Send what waits, until this is cancelled."""
        while True:
            pause_s = await self._try_send()
            if self._failures:
                await asyncio.sleep(pause_s)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._wake.wait()

    async def close(self) -> None:
        """Close the connection to the webhook."""
        if self._webhook:
            await self._webhook.close()

    def wake(self) -> None:
        """Send soon, because an alert waits."""
        self._wake.set()

    def keep(self, alert: NewAlert) -> None:
        """Keep an alert in memory, to be sent without the ledger. The oldest is lost when there are too many."""
        if self._settings().alert_target is not None:
            self._kept.append(_KeptAlert(alert))
            self.wake()

    async def save_kept(self) -> None:
        """Move the alerts in memory to the ledger. One that is being sent now may be sent twice."""
        if self._kept:
            waiting = [one.alert for one in self._kept]
            await self._ledger.write(enqueue, waiting, {}, is_sent=True)
            self._kept.clear()

    def note_dropped(self, alerts: Sequence[NewAlert | WaitingAlert], reason: str) -> None:
        """Count and log alerts that are never sent."""
        for alert in alerts:
            self._metrics.count_delivery("dropped")
            fields = {"event": "alert dropped", "alert_id": alert.id, "alert_type": alert.type}
            log.error("an alert is dropped: %s", reason, extra=fields)

    async def _try_send(self) -> float:
        """Send what is due. Return the seconds to wait. Log the first of several faults in a row."""
        pause_s = _IDLE_S
        self._wake.clear()
        try:
            pause_s = await self.send()
            self._has_failed = False
        except FAULTS as error:
            if not self._has_failed and self._store.outage is None:
                log.warning("alerts can't be sent: %s", error)
            self._has_failed = True
        except Exception:
            if not self._has_failed:
                log.exception("alerts can't be sent")
            self._has_failed = True
        return min(pause_s, _IDLE_S)  # New settings may name another receiver.

    async def send(self) -> float:
        """Send what is due, and what is kept. Return the seconds until there may be more."""
        if (self._ledger.is_leader or self._kept) and (webhook := await self._find_webhook()):
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
            self.log_missing_target()
        if target:
            self._failures, self._paused_until_s = 0, float("-inf")
            self._webhook = await asyncio.to_thread(Webhook, target, proxy)
        return self._webhook

    async def _send_due(self, webhook: Webhook) -> float:
        """Send what is due, the oldest first, until the receiver fails. Return the pause after that."""
        if self._pause_s > 0:
            return self._pause_s
        while self._kept and not self._pause_s > 0:
            await self._send_kept(webhook, self._kept[0])
        while self._ledger.is_leader and self._store.outage is None and not self._pause_s > 0:
            due = await self._ledger.read(find_due, format_utc(self._clock.now()), _BATCH)
            if not due:
                return _NEXT_LOOK_S
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

    async def _send_kept(self, webhook: Webhook, kept: _KeptAlert) -> None:
        kept.attempts += 1
        outcome = await self._attempt(webhook, kept.alert.body, kept.attempts)
        is_done = outcome.is_taken or outcome.is_event_refused
        if is_done and self._kept and self._kept[0] is kept:  # The ledger may have it by now.
            self._kept.popleft()
            if outcome.is_event_refused:
                self.note_dropped([kept.alert], f"the webhook refuses it: {outcome.answer}")

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
            await self._ledger.write(note_sent, alert.id, moment, outcome.answer)
            return
        failures = alert.attempts + 1 if outcome.is_event_refused else self._failures
        next_at = format_utc(now + timedelta(seconds=back_off_s(failures)))
        await self._ledger.write(note_failed, alert.id, outcome.answer, next_at)
        oldest = format_utc(now - MAX_AGE)
        # An alert that is old because no gateway ran gets its attempts too.
        if alert.created_at < oldest and alert.attempts + 1 >= MIN_ATTEMPTS:
            only = alert.id if outcome.is_event_refused else None
            dropped = await self._ledger.write(drop_old, oldest, moment, only)
            self.note_dropped(dropped, f"it could not be delivered within a day; last: {outcome.answer}")

    def log_missing_target(self) -> None:
        """Log when no alert can be sent, because an environment variable is not set."""
        settings = self._settings()
        if settings.conf.alerts.webhook and settings.alert_target is None:
            log.error(
                "alerts are not sent: an environment variable that [alerts] names is not set",
                extra={"event": "alerts not sent"},
            )
