"""What this process held and settled in the last minutes. A server that was behind may have lost it."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from addon.runtime.clock import Clock
from addon.store.protocol import HoldRequest, Settlement
from policies.spend import Hold

KEPT_S: Final = 600.0
MAX_CALLS: Final = 100_000


class _Settled(NamedTuple):
    """A settlement as it is kept: without the dictionary of its row, which takes half of the memory."""

    at_s: float
    columns: Sequence[str]
    values: Sequence[Any]
    from_wallet: bool

    def settlement(self) -> Settlement:
        return Settlement(dict(zip(self.columns, self.values, strict=True)), self.from_wallet)


class RecentCalls:
    """The calls in flight with their holds, and the calls that were settled lately. The oldest is forgotten first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[str, tuple[HoldRequest, Hold]] = {}
        self._settled: dict[str, _Settled] = {}
        self._columns: dict[Sequence[str], Sequence[str]] = {}
        """The names of the columns of rows, which nearly all rows share."""

    def held(self, request: HoldRequest, placed: Hold) -> None:
        """Keep a hold until its call ends."""
        self._held[request.id] = request, placed

    def voided(self, call_id: str) -> None:
        """Forget a call that was not sent."""
        self._held.pop(call_id, None)

    def settled(self, settlement: Settlement) -> None:
        """Keep a settlement instead of its hold."""
        call_id, now_s = str(settlement.row["id"]), self._clock.monotonic_s()
        self._held.pop(call_id, None)
        names, values = tuple(settlement.row), tuple(settlement.row.values())
        columns = self._columns.setdefault(names, names)
        self._settled.setdefault(call_id, _Settled(now_s, columns, values, settlement.from_wallet))
        while self._settled:
            oldest = next(iter(self._settled))
            if len(self._settled) <= MAX_CALLS and now_s - self._settled[oldest].at_s <= KEPT_S:
                break
            del self._settled[oldest]

    def holds(self) -> list[tuple[HoldRequest, Hold]]:
        """Return the calls in flight and their holds."""
        return list(self._held.values())

    def settlements(self) -> list[Settlement]:
        """Return the settlements, the newest first: a server that was behind lacks those."""
        return [one.settlement() for one in reversed(self._settled.values())]

    def last(self) -> tuple[str, str] | None:
        """Return id and time of the call that was settled last, unless that is too long ago."""
        if not self._settled:
            return None
        last = self._settled[next(reversed(self._settled))]
        if self._clock.monotonic_s() - last.at_s > KEPT_S:
            return None
        row = last.settlement().row
        return str(row["id"]), str(row["created_at"])

    def knows(self, call_id: str) -> bool:
        """Return whether a call is in flight."""
        return call_id in self._held
