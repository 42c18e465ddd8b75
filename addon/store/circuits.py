"""What a process knows of the circuits that all share: read once a second, so that a call asks nobody.

A circuit is no guard. What can't be read or written counts as closed, and nothing here raises ``StoreUnavailable`` but
``refresh``. Source of the rule: ``policies.breaker``.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from addon.store import UPKEEP_S, StoreUnavailable
from policies.breaker import CLOSED, Change, Circuit, after_failure, after_probe, after_success, state_of

log = logging.getLogger("tollgate.circuits")

BELIEVED_S = 5 * UPKEEP_S
"""How long what was read is believed, where it can't be read again."""


@dataclass(frozen=True, slots=True)
class Reading:
    """All circuits that are not as new, by name, at a time of the clock that they are kept by."""

    circuits: Mapping[str, Circuit]
    now_us: int


class CircuitTable(Protocol):
    """Where the circuits are kept for all processes. Its methods raise ``StoreUnavailable``."""

    async def read(self) -> Reading:
        """Return all of them."""

    async def change(self, name: str, change: Change) -> tuple[Circuit, Circuit]:
        """Change one in one step; return what it was and what it is."""


class Circuits:
    """The circuits, as this process saw them last."""

    def __init__(self, table: CircuitTable) -> None:
        self._table = table
        self._known: dict[str, Circuit] = {}
        self._read_us = 0
        self._read_s = float("-inf")

    async def refresh(self) -> None:
        """Read all circuits. Raises ``StoreUnavailable``."""
        reading = await self._table.read()
        self._known = dict(reading.circuits)
        self._read_us, self._read_s = reading.now_us, time.monotonic()

    def open_now(self) -> frozenset[str]:
        """Return the names of those that are open or half-open."""
        return frozenset(name for name in self._known if self._state(name) != "closed")

    async def may_try(self, name: str) -> bool:
        """Tell whether a call that can go elsewhere may go here; if a probe is due, one call may."""
        state = self._state(name)
        if state != "half_open":
            return state == "closed"
        changed = await self._change(name, after_probe)
        if changed is None:
            return True
        before, after = changed
        return not after.is_open or before != after

    async def note(self, name: str, *, failed: bool) -> None:
        """Take note of how an attempt ended. Nothing is written where that changes nothing."""
        known = self._known.get(name, CLOSED)
        if failed and (not self._is_believed or after_failure(known, self._now_us) != known):
            await self._change(name, after_failure)
        elif not failed and name in self._known:
            del self._known[name]  # One of the calls that end now writes it.
            await self._change(name, after_success)

    @property
    def _is_believed(self) -> bool:
        return time.monotonic() - self._read_s < BELIEVED_S

    @property
    def _now_us(self) -> int:
        return self._read_us + round((time.monotonic() - self._read_s) * 1_000_000)

    def _state(self, name: str) -> str:
        if not self._is_believed:
            return "closed"
        return state_of(self._known.get(name, CLOSED), self._now_us)

    async def _change(self, name: str, change: Change) -> tuple[Circuit, Circuit] | None:
        """Return what a circuit was and is; None where that can't be done."""
        try:
            before, after = await self._table.change(name, change)
        except StoreUnavailable:
            return None
        self._known[name] = after
        if after == CLOSED:
            del self._known[name]
        _log(name, before, after)
        return before, after


class SharesCircuits:
    """A store that shares its circuits in the one way that there is: what ``Store`` says of them."""

    _circuits: Circuits

    async def note_attempt(self, circuit: str, *, failed: bool) -> None:
        """See ``Store.note_attempt``."""
        await self._circuits.note(circuit, failed=failed)

    async def may_try(self, circuit: str) -> bool:
        """See ``Store.may_try``."""
        return await self._circuits.may_try(circuit)

    def open_circuits(self) -> frozenset[str]:
        """See ``Store.open_circuits``."""
        return self._circuits.open_now()


def _log(name: str, before: Circuit, after: Circuit) -> None:
    """Write a line where a circuit opens or closes: in one of all processes, the one that changed it."""
    if after.is_open and not before.is_open:
        fields = {"event": "circuit opened", "circuit": name}
        log.warning("%s keeps failing: calls that can go elsewhere do", name, extra=fields)
    elif before.is_open and after == CLOSED:
        log.info("%s serves again", name, extra={"event": "circuit closed", "circuit": name})
