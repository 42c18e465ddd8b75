"""``Rescues``: the calls that the Safety Net carries, and which of them are worth an alert."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from addon.alerts import events
from addon.alerts.found_events import FoundEvents
from addon.runtime.clock import Clock
from addon.settings.settings import Settings
from addon.store.money.alerts import Rescue
from policies.alert_rules import RESCUE_WINDOW_S, RESCUED_CALLS


class _Window(NamedTuple):
    """Rescued calls at one moment."""

    at_s: float
    calls: int
    retail_nanousd: int


class Rescues:
    """The rescued calls of the last ``RESCUE_WINDOW_S``, by workspace and provider."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._windows: defaultdict[tuple[str, str], deque[_Window]] = defaultdict(deque)

    def forget(self) -> None:
        """Forget all calls."""
        self._windows.clear()

    def add(self, fallbacks: Iterable[Rescue]) -> None:
        """Add calls that a fallback served, as of now."""
        now_s = self._clock.monotonic_s()
        for one in fallbacks:
            window = _Window(now_s, one.calls, one.retail_nanousd)
            self._windows[one.workspace, one.provider].append(window)

    def find(self, found: FoundEvents, known: Mapping[str, str], settings: Settings, now: datetime) -> None:
        """Add an event for each workspace and provider with many calls, once a day. ``known`` has the marks."""
        from_s, day = self._clock.monotonic_s() - RESCUE_WINDOW_S, now.date().isoformat()
        for (name, provider), window in list(self._windows.items()):
            while window and window[0].at_s < from_s:
                window.popleft()
            if not window:
                del self._windows[name, provider]
                continue
            calls = sum(one.calls for one in window)
            mark = f"rescue {name} {provider}"
            if calls <= RESCUED_CALLS or known.get(mark) == day:
                continue
            workspace, served = settings.workspaces.get(name), settings.providers.get(provider)
            # A fallback with a platform key, of a workspace with a key of its own for this provider: the Safety Net.
            if workspace and served and workspace.routed_key(served):
                rescue = Rescue(name, provider, calls, sum(one.retail_nanousd for one in window))
                found.events.append(events.safety_net_carries(rescue, day, now))
                found.marks[mark] = day
