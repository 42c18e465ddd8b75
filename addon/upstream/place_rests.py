"""The places that a vendor's own signals let rest, in one process. What one customer's key was told stays with it.

A rest is by place and by who calls it: a platform key, or a workspace with its own key. No call is refused because of
one: where nothing else can serve, the place is used all the same.
"""

from collections.abc import Hashable
from typing import Final

from addon.runtime.clock import Clock

MAX_RESTS: Final = 10_000
"""The most rests that are kept. The one that ends first makes room for another."""


class PlaceRests:
    """The rests of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s: dict[tuple[str, Hashable], float] = {}

    def __bool__(self) -> bool:
        return bool(self._until_s)

    def note(self, place: str, caller: Hashable, rest_s: float) -> None:
        """Let a place rest for a caller. A rest that would end earlier changes nothing."""
        now_s = self._clock.monotonic_s()
        until_s, named = now_s + rest_s, (place, caller)
        if until_s <= self._until_s.get(named, now_s):
            return
        self._until_s[named] = until_s
        if len(self._until_s) > MAX_RESTS:
            self.forget_ended()
            while len(self._until_s) > MAX_RESTS:
                del self._until_s[min(self._until_s, key=self._until_s.__getitem__)]

    def forget_ended(self) -> None:
        """Forget the rests that have ended, also those of places and keys that no call asks for any more."""
        now_s = self._clock.monotonic_s()
        if any(end_s <= now_s for end_s in self._until_s.values()):
            self._until_s = {name: end_s for name, end_s in self._until_s.items() if end_s > now_s}

    def until_s(self, place: str, caller: Hashable) -> float:
        """Return when a rest ends, by the monotonic clock; minus infinity where there is none."""
        if not self._until_s:
            return float("-inf")
        until_s = self._until_s.get((place, caller), float("-inf"))
        if until_s <= self._clock.monotonic_s():
            self._until_s.pop((place, caller), None)
        return until_s
