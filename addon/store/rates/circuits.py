"""The circuits that all processes share, as this process read them last: once a second, so that no call waits.

A circuit enforces no limit. One that can't be read or written counts as closed, and only ``refresh`` raises
``StoreUnavailable``. Source of the rule: ``policies.circuit_breaker``.
"""

import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

from addon.runtime.clock import Clock
from addon.store.protocol import MAINTENANCE_INTERVAL_S, StoreUnavailable
from policies import circuit_breaker
from policies.circuit_breaker import (
    CLOSED,
    PROBE_US,
    Change,
    Circuit,
    CircuitState,
    is_reported_open,
    shared_name,
    state_of,
)

log = logging.getLogger("tollgate.circuits")

FRESH_S = 5 * MAINTENANCE_INTERVAL_S
"""How long the last reading is used when no new one succeeds."""

MAX_CIRCUITS = 1000
"""The most circuits that are stored. A failure of another one is not recorded."""

_FORGET_BATCH = 20


@dataclass(frozen=True, slots=True)
class CircuitSnapshot:
    """All circuits with a failure or success to remember, by name, and the time of the store's clock."""

    circuits: Mapping[str, Circuit]
    now_us: int


class CircuitTable(Protocol):
    """The storage of the circuits, shared by all processes. Its methods raise ``StoreUnavailable``."""

    async def read(self) -> CircuitSnapshot:
        """Return all circuits."""

    async def change(self, name: str, change: Change) -> tuple[Circuit, Circuit]:
        """Change one circuit in one atomic step. Return it before and after."""


class Circuits:
    """The circuits as this process read them last, and its calls that are probes.

    ``known`` has the circuits with a failure or success to remember. ``probes`` has, by call, the circuit of a probe
    and the time until which that circuit waits for its result.
    """

    def __init__(self, table: CircuitTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self.known: dict[str, Circuit] = {}
        self._closing: set[str] = set()
        self.probes: dict[str, tuple[str, int]] = {}
        self._read_us = 0
        self._read_s = float("-inf")

    async def refresh(self) -> None:
        """Read all circuits, and extend the time of the probes in flight. Raises ``StoreUnavailable``."""
        reading = await self._table.read()
        self.known = dict(reading.circuits)
        self._read_us, self._read_s = reading.now_us, self._clock.monotonic_s()
        for call_id, (name, until_us) in list(self.probes.items()):
            if until_us - self._now_us < PROBE_US / 2:
                changed = await self._change(name, partial(circuit_breaker.renew_probe, until_us=until_us))
                if changed and call_id in self.probes:
                    self.probes[call_id] = name, changed[1].retry_us
        await self._forget_old()

    def is_open(self, name: str) -> bool:
        """Return whether calls that have a fallback skip this circuit, except for a probe."""
        if not self.known or not self._is_fresh:
            return False
        return circuit_breaker.is_passed_over(self.known, name, self._now_us)

    def open_names(self) -> frozenset[str]:
        """Return the names that are reported as open: those of one workspace and those for all workspaces."""
        if not self._is_fresh:
            return frozenset()
        shared = {found: self._shared_circuit(found) for name in self.known if (found := shared_name(name))}
        reported = {name: circuit for name, circuit in self.known.items() if name not in shared} | shared
        return frozenset(
            name for name, circuit in reported.items() if is_reported_open(circuit, self._now_us)
        )

    async def allows(self, name: str, call_id: str) -> bool:
        """Return whether a call that has a fallback may use this circuit. When a probe is due, one call may."""
        shared = shared_name(name)
        own, shared_state = self._state(name), self._shared_state(shared)
        if "open" in (own, shared_state):
            return False
        if shared and shared_state == "half_open":
            return await self._probe(shared, circuit_breaker.after_shared_probe, call_id)
        return own == "closed" or await self._probe(name, circuit_breaker.after_probe, call_id)

    def end_probe(self, call_id: str) -> Coroutine[Any, Any, Any] | None:
        """Return what to await when a call has ended that was a probe without a result; None for any other call."""
        probe = self.probes.pop(call_id, None)
        return (
            self._change(probe[0], partial(circuit_breaker.release_probe, until_us=probe[1]))
            if probe
            else None
        )

    async def record_attempt(self, name: str, *, failed: bool) -> None:
        """Record how an attempt ended. Write only when that changes a circuit."""
        shared = shared_name(name)
        if self.probes:
            ended = (name, shared)
            self.probes = {call: probe for call, probe in self.probes.items() if probe[0] not in ended}
        await (self._record_failure if failed else self._record_success)(name, shared)

    async def _record_failure(self, name: str, shared: str | None) -> None:
        known = self.known.get(name, CLOSED)
        has_room = name in self.known or len(self.known) < MAX_CIRCUITS
        if has_room and not (self._is_fresh and circuit_breaker.after_failure(known, self._now_us) == known):
            await self._change(name, circuit_breaker.after_failure)
        if shared and self._shared_state(shared) != "closed":
            known = self.known.get(shared, CLOSED)
            if circuit_breaker.after_shared_failure(known, self._now_us) != known:
                await self._change(shared, circuit_breaker.after_shared_failure)

    async def _record_success(self, name: str, shared: str | None) -> None:
        if not self.known or name in self._closing:
            return
        self._closing.add(name)  # Only one of the calls that end now writes it.
        try:
            if shared:
                latest_us = max((one.began_us for one in self._members(shared)), default=0)
                if latest_us > self.known.get(shared, CLOSED).began_us:
                    self.known[shared] = circuit_breaker.after_shared_success(CLOSED, latest_us)
                    await self._change(shared, circuit_breaker.after_shared_success)
            if name in self.known:
                await self._change(name, circuit_breaker.after_success)
        finally:
            self._closing.discard(name)

    @property
    def _is_fresh(self) -> bool:
        return self._clock.monotonic_s() - self._read_s < FRESH_S

    @property
    def _now_us(self) -> int:
        return self._read_us + round((self._clock.monotonic_s() - self._read_s) * 1_000_000)

    def _state(self, name: str) -> CircuitState:
        if not self._is_fresh:
            return "closed"
        return state_of(self.known.get(name, CLOSED), self._now_us)

    def _shared_state(self, shared: str | None) -> CircuitState:
        if shared is None or not self.known or not self._is_fresh:
            return "closed"
        return state_of(self._shared_circuit(shared), self._now_us)

    def _shared_circuit(self, shared: str) -> Circuit:
        return circuit_breaker.shared_circuit(
            self._members(shared), self.known.get(shared, CLOSED), self._now_us
        )

    def _members(self, shared: str) -> list[Circuit]:
        """Return the circuits of the workspaces that share ``shared``."""
        return [known for name, known in self.known.items() if name.startswith(shared) and name != shared]

    async def _probe(self, name: str, change: Change, call_id: str) -> bool:
        changed = await self._change(name, change)
        if changed is None:
            return True
        before, after = changed
        if before != after:
            self.probes[call_id] = name, after.retry_us
            return True
        # Another call is the probe, unless the circuit was closed in the meantime.
        return not self.is_open(name)

    async def _forget_old(self) -> None:
        """Remove circuits that are too old to matter. A shared success stays as long as any failure of its members."""
        now_us = self._now_us
        old = [name for name, known in self.known.items() if circuit_breaker.forget(known, now_us) == CLOSED]
        for name in old[:_FORGET_BATCH]:
            if shared_name(name) != name or not self._members(name):
                await self._change(name, circuit_breaker.forget, is_logged=False)

    async def _change(
        self, name: str, change: Change, *, is_logged: bool = True
    ) -> tuple[Circuit, Circuit] | None:
        """Return a circuit before and after the change, None when the store can't be reached."""
        try:
            before, after = await self._table.change(name, change)
        except StoreUnavailable:
            return None
        shared = shared_name(name)
        self._put(name, before)
        was_open = self._shared_state(shared) != "closed"
        self._put(name, after)
        if is_logged:
            if shared:
                _log_change(shared, was_open, self._shared_state(shared) != "closed")
            _log_change(name, before.is_open, after.is_open)
        return before, after

    def _put(self, name: str, circuit: Circuit) -> None:
        self.known[name] = circuit
        if circuit == CLOSED:
            del self.known[name]


class SharedCircuitsMixin:
    """The methods of ``Store`` for circuits, which both stores share."""

    _circuits: Circuits

    known_circuits = property(attrgetter("_circuits.known"))
    probes = property(attrgetter("_circuits.probes"))
    record_attempt = property(attrgetter("_circuits.record_attempt"))
    is_circuit_open = property(attrgetter("_circuits.is_open"))
    circuit_allows = property(attrgetter("_circuits.allows"))
    end_probe = property(attrgetter("_circuits.end_probe"))
    open_circuits = property(attrgetter("_circuits.open_names"))


def _log_change(name: str, was_open: bool, is_open: bool) -> None:
    """Log a circuit that opened or closed. Only the process that changed it does so."""
    scope = "all workspaces" if name.endswith("/") else "one workspace"
    if is_open and not was_open:
        fields = {"event": "circuit opened", "circuit": name}
        log.warning("%s keeps failing for %s: calls that have a fallback skip it", name, scope, extra=fields)
    elif was_open and not is_open:
        log.info("%s serves %s again", name, scope, extra={"event": "circuit closed", "circuit": name})
