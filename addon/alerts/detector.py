"""``Detector``: finds the events of budgets, keys, circuits, the Safety Net, and files that do not load or differ.

A look reads the rows that are new since the last one, and the counters of their keys and workspaces. Every
``FULL_LOOK_S`` it reads all counters, for credits and corrections. After a reload it reads those of workspaces that
changed. No call waits for it or does anything for it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from addon.alerts import events
from addon.alerts.fleet_files import FleetFiles
from addon.alerts.found_events import FoundEvents
from addon.alerts.ledger_thread import LedgerThread
from addon.alerts.rescues import Rescues
from addon.runtime.clock import Clock
from addon.settings.settings import Settings
from addon.store.money.alerts import (
    last_row,
    read_fallbacks,
    read_marks,
    read_new_rows,
)
from addon.store.money.reports.budgets import find_reached
from addon.store.money.reports.wallet_credits import Credit, find_last_credits
from addon.store.protocol import Store
from addon.telemetry.metrics import Metrics
from policies.alert_rules import (
    RESCUE_WINDOW_S,
    Budget,
    Mark,
    find_crossed,
    find_key_ends,
    limits_to_watch,
    make_budget,
    value_marks,
)
from policies.circuit_breaker import LEAST_WORKSPACES, shared_name
from policies.model import Workspace
from policies.utc_time import format_utc

FULL_LOOK_S: Final = 30.0
_BATCH: Final = 20
"""How many workspaces are read before calls get a turn of the event loop."""


class Detector:
    """Finds events in the one process that leads. It knows all marks, because only it writes them."""

    def __init__(self, ledger: LedgerThread, store: Store, metrics: Metrics, clock: Clock) -> None:
        self._ledger = ledger
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._fleet_files = FleetFiles(ledger, clock)
        self._marks: dict[str, str] | None = None
        self._last_row = 0
        self._rescues = Rescues(clock)
        self._settings: Settings | None = None
        self._full_look_s = float("-inf")

    async def look(self, settings: Settings, faults: Mapping[str, str]) -> FoundEvents:
        """Return what is new. ``faults`` has a reason for each file that does not load.

        Raises ``StoreUnavailable``.
        """
        if self._marks is None:
            await self._begin()
        found, now = FoundEvents(), self._clock.now()
        self._find_faults(found, faults, now)
        self._find_lost_keys(found, settings, now)
        self._find_circuits(found, settings, now)
        await self._find_in_ledger(found, settings, now)
        if settings.conf.ledger.url:
            await self._fleet_files.find(found, self._known, now)
        self._settings = settings
        return found

    def note_written(self, marks: Mapping[str, str | None]) -> None:
        """Remember the marks that were written."""
        known = self._known
        for name, value in marks.items():
            if value is None:
                known.pop(name, None)
            else:
                known[name] = value

    def reread_all_counters(self) -> None:
        """Read all counters at the next look: what the last one found was not written."""
        self._full_look_s = float("-inf")

    def forget(self) -> None:
        """Forget all, because another process may lead now, and write marks."""
        self._marks, self._settings = None, None
        self._rescues.forget()
        self._fleet_files.forget()
        self.reread_all_counters()

    @property
    def _known(self) -> dict[str, str]:
        assert self._marks is not None  # noqa: S101
        return self._marks

    async def _begin(self) -> None:
        """Read the marks of the process that led before, and the rescued calls of its last minutes."""
        since = format_utc(self._clock.now() - timedelta(seconds=RESCUE_WINDOW_S))
        last = await self._ledger.read(last_row, self._ledger.newest_row)
        fallbacks = await self._ledger.read(read_fallbacks, since, last)
        self._marks = await self._ledger.read(read_marks)
        # Nothing can fail from here on, so no row is counted twice.
        self._last_row = last
        self._rescues.add(fallbacks)

    # Facts of this process.

    def _find_faults(self, found: FoundEvents, faults: Mapping[str, str], now: datetime) -> None:
        for subject, reason in faults.items():
            if self._known.get(f"reload {subject}") != reason:
                found.events.append(events.reload_failed(subject, reason, now))
                found.marks[f"reload {subject}"] = reason
        for name in self._known:
            if name.startswith("reload ") and name.removeprefix("reload ") not in faults:
                found.marks[name] = None

    def _find_lost_keys(self, found: FoundEvents, settings: Settings, now: datetime) -> None:
        before = self._settings
        if before is None or before is settings:
            return
        for name, provider in settings.providers.items():
            had = before.providers.get(name)
            if had and had.platform_keys and not provider.has_platform_key:
                found.events.append(events.platform_keys_lost(name, now))

    # Facts that all processes share.

    def _find_circuits(self, found: FoundEvents, settings: Settings, now: datetime) -> None:
        failing: defaultdict[str, int] = defaultdict(int)
        skipped = set()
        needed = min(LEAST_WORKSPACES, len(settings.workspaces))
        for name in self._store.open_circuits():
            provider = name.partition("/")[0]
            if shared_name(name) == name:
                skipped.add(provider)
            elif shared_name(name):
                failing[provider] += 1
        if needed < LEAST_WORKSPACES:
            skipped |= failing.keys()
        alerted = {name.removeprefix("circuit "): name for name in self._known if name.startswith("circuit ")}
        for provider in sorted(skipped - alerted.keys()):
            found.events.append(events.circuit_opened(provider, failing[provider], now))
            found.marks[f"circuit {provider}"] = format_utc(now)
        for provider in sorted(alerted.keys() - skipped):
            name = alerted[provider]
            found.events.append(events.circuit_closed(provider, self._known[name], now))
            found.marks[name] = None

    async def _find_in_ledger(self, found: FoundEvents, settings: Settings, now: datetime) -> None:
        new = await self._ledger.read(read_new_rows, self._ledger.newest_row, self._last_row)
        # The next look reads later rows only, also if this one fails. It then looks at all budgets.
        self._last_row = new.last
        self._rescues.add(new.fallbacks)
        self._rescues.find(found, self._known, settings, now)
        now_s = self._clock.monotonic_s()
        changed = _find_changed(self._settings, settings)
        if changed is None or now_s - self._full_look_s >= FULL_LOOK_S:
            self._find_key_ends(found, settings.workspaces.values(), now)
            await self._find_budgets(found, settings, None, now)
            self._full_look_s = now_s
        else:
            self._find_key_ends(found, changed, now)
            callers = {(one.id, key_id) for one in changed for key_id in ("", *(key.id for key in one.keys))}
            await self._find_budgets(found, settings, new.callers | callers, now)

    def _find_key_ends(self, found: FoundEvents, workspaces: Iterable[Workspace], now: datetime) -> None:
        for workspace in workspaces:
            for key in workspace.keys:
                for end in find_key_ends(key, now):
                    name, at = f"key {workspace.id} {key.id} {end.which}", format_utc(end.at)
                    lead, _, marked_at = self._known.get(name, "").partition(" ")
                    if marked_at != at or end.lead_s < int(lead):
                        found.events.append(events.key_expires(workspace.id, end, now))
                        found.marks[name] = f"{end.lead_s} {at}"

    async def _find_budgets(
        self,
        found: FoundEvents,
        settings: Settings,
        callers: frozenset[tuple[str, str]] | None,
        now: datetime,
    ) -> None:
        """Look at the budgets of these callers, or at all."""
        has_gauges = settings.conf.metrics.workspaces
        names = settings.workspaces.keys() if callers is None else {workspace for workspace, _ in callers}
        wanted = [one for name in sorted(names) if (one := settings.workspaces.get(name))]
        if not has_gauges:
            wanted = [one for one in wanted if one.alert_at_percent]
        if not wanted and callers is not None:
            return
        # Before the counters: a credit that comes in between then makes nothing look spent.
        last_credits = await self._ledger.read(find_last_credits, [one.id for one in wanted])
        shown: dict[tuple[str, str], float] = {}
        for number, workspace in enumerate(wanted):
            if number % _BATCH == 0:
                await asyncio.sleep(0)
            credit = last_credits.get(workspace.id)
            shown |= await self._find_in_budgets(found, workspace, callers, credit, now)
        if has_gauges:
            self._metrics.set_workspace_budgets(shown, is_all=callers is None)
        elif callers is None:
            self._metrics.set_workspace_budgets({}, is_all=True)

    async def _find_in_budgets(
        self,
        found: FoundEvents,
        workspace: Workspace,
        callers: frozenset[tuple[str, str]] | None,
        credit: Credit | None,
        now: datetime,
    ) -> dict[tuple[str, str], float]:
        """Look at the budgets of one workspace. Return what is left of its own, in USD, for its gauges."""
        limits = [
            (key_id, limit)
            for key_id, limit in limits_to_watch(workspace, now)
            if callers is None or key_id is None or (workspace.id, key_id) in callers
        ]
        left_usd: dict[tuple[str, str], float] = {}
        used = await self._store.read_counters(workspace.id, [limit.counter for _, limit in limits])
        for (key_id, limit), (spent_nanousd, requests) in zip(limits, used, strict=True):
            if limit.kind in ("wallet", "monthly_spend_cap"):
                left_usd[limit.kind, workspace.id] = (limit.maximum - spent_nanousd) / 1e9
            budget = make_budget(workspace.id, key_id, limit, spent_nanousd, requests, credit)
            if budget:
                self._find_thresholds(found, workspace.alert_at_percent, budget, now)
        if workspace.budgets and workspace.alert_at_percent:
            await self._find_in_values(found, workspace, now)
        return left_usd

    async def _find_in_values(self, found: FoundEvents, workspace: Workspace, now: datetime) -> None:
        """Look at the budgets of users and tags of one workspace. Forget the marks of those that are not reached."""
        passed = {name for name in self._known if name.startswith(value_marks(workspace.id))}
        for limit, spent_nanousd in await self._ledger.read(find_reached, workspace, now):
            budget = make_budget(workspace.id, None, limit, spent_nanousd, 0, None)
            assert budget is not None  # noqa: S101  (only a wallet may have none)
            passed.discard(budget.name)
            self._find_thresholds(found, workspace.alert_at_percent, budget, now)
        found.marks |= dict.fromkeys(passed)

    def _find_thresholds(
        self, found: FoundEvents, percents: Sequence[int], budget: Budget, now: datetime
    ) -> None:
        mark = _parse_mark(self._known.get(budget.name))
        crossed, after = find_crossed(percents, budget, mark)
        found.events += [events.threshold_crossed(budget, percent, now) for percent in crossed]
        if after is not None and after != mark:
            found.marks[budget.name] = f"{after.percent} {after.maximum} {after.period}"


def _find_changed(before: Settings | None, now: Settings) -> Sequence[Workspace] | None:
    """Return the workspaces that a reload has changed; None where more than workspaces has changed, or one is gone."""
    if before is now:
        return ()
    if before is None or before.conf != now.conf or not before.workspaces.keys() <= now.workspaces.keys():
        return None
    return [one for name, one in now.workspaces.items() if before.workspaces.get(name) is not one]


def _parse_mark(text: str | None) -> Mark | None:
    if text is None:
        return None
    percent, maximum, period = text.split(" ", 2)
    return Mark(period, int(maximum), int(percent))
