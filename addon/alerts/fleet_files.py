"""``FleetFiles``: finds the machines of a fleet that have other files than most, from what each says of itself."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from addon.alerts import events
from addon.alerts.found_events import FoundEvents
from addon.alerts.ledger_thread import LedgerThread
from addon.fleet.tables import read_machine_files
from addon.runtime.clock import Clock
from policies.fleet_files import (
    PERSIST_S,
    Difference,
    Reported,
    Since,
    find_differences,
    find_lasting,
    find_news,
    follow,
)
from policies.utc_time import format_utc

LOOK_S: Final = 10.0
"""The time between two looks: as often as machines describe themselves."""
_MARK: Final = "files "


class FleetFiles:
    """The looks of the process that leads. Another one begins to wait for a minute anew."""

    def __init__(self, ledger: LedgerThread, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Forget since when machines differ."""
        self._differing: Since = {}
        self._silent: Since = {}
        self._looked_s = float("-inf")

    async def find(self, found: FoundEvents, marks: Mapping[str, str], now: datetime) -> None:
        """Add what is new, if it is time to look. ``marks`` are those of all alerts. Raises ``StoreUnavailable``."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s < LOOK_S:
            return
        files = await self._ledger.read(read_machine_files)
        self._looked_s = now_s
        known = {
            name.removeprefix(_MARK): Reported(*json.loads(value))
            for name, value in marks.items()
            if name.startswith(_MARK)
        }
        self._differing = follow(self._differing, find_differences(files), now_s)
        # After an outage of the ledger all are silent at first.
        silent = [Difference(one, "") for one in known.keys() - files.keys()]
        self._silent = follow(self._silent, silent, now_s)
        gone = {one.machine for one in find_lasting(self._silent, now_s)}
        lasting = find_lasting(self._differing, now_s)
        for machine in sorted({*files, *gone}):
            before = known.get(machine)
            since = format_utc(now - timedelta(seconds=PERSIST_S))
            new, after = find_news(before, _of(machine, self._differing), _of(machine, lasting), since)
            if new and after:
                found.events.append(events.files_differ(machine, new, after, now))
            if before and not after:
                found.events.append(events.files_agree(machine, before, is_gone=machine in gone, now=now))
            if after != before:
                found.marks[_MARK + machine] = json.dumps(after) if after else None


def _of(machine: str, differences: Iterable[Difference]) -> list[str]:
    return [one.file for one in differences if one.machine == machine]
