"""When a provider that keeps failing is passed over: a circuit opens after failures in a row and closes at a success.

Closed → open: ``FAILURES`` attempts in a row failed, all within ``WINDOW_US``. Open → half-open: it rested for
``REST_US``. Half-open: one call, the probe, may try it while the others go elsewhere; if that fails it rests again.
Whatever succeeds closes it, and one that nobody tries is forgotten. A call that can't go elsewhere is sent all the
same, and what becomes of it counts, too.

Each workspace has circuits of its own: one customer's failures, which it may provoke, send nobody else away. With the
platform's keys a provider is also passed over for all workspaces, while the circuits of ``LEAST_WORKSPACES`` of them
are open and nobody has succeeded there since the first of these failures. What is kept of that is a ``Circuit`` of one
failure, which never is open itself: ``began_us`` is when a success was last noted, ``retry_us`` when all may try again.
Times are readings of one clock, in µs. Source: docs/decisions/circuit-breakers-skip-failing-providers.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from policies.model import Attempt, Mode, Workspace

FAILURES = 5
WINDOW_US = 60_000_000
REST_US = 30_000_000
PROBE_US = 60_000_000
"""How long a probe is waited for whose process does not say that it goes on."""
LEAST_WORKSPACES = 2
FORGET_US = 600_000_000
"""How long after its rest a circuit that nobody tried is remembered: what failed then tells nothing of now."""

CircuitState = Literal["closed", "open", "half_open"]
CircuitScope = Literal["workspace", "all"]

_MODES: Mapping[str, Mode] = {"payg": "payg", "byok": "byok"}


@dataclass(frozen=True, slots=True)
class Circuit:
    """How many attempts in a row failed, when the first of them did, and, once it is open, when it may be tried."""

    failures: int = 0
    began_us: int = 0
    retry_us: int = 0

    @property
    def is_open(self) -> bool:
        """Whether calls that can go elsewhere do, but for a probe."""
        return self.failures >= FAILURES


CLOSED = Circuit()

type Change = Callable[[Circuit, int], Circuit]
"""What becomes of a circuit at a time."""


def circuit_of(attempt: Attempt, workspace: Workspace) -> str:
    """Return the name of the circuit that an attempt for a workspace belongs to."""
    return circuit_name(attempt.model.provider.name, attempt.mode, workspace.id)


def circuit_name(provider: str, mode: Mode, workspace: str) -> str:
    """Return which circuit an attempt belongs to: that of a workspace at a provider, with whose key it is made.

    A customer's key that is revoked, or out of its quota, says nothing of the platform's.
    """
    return f"{provider}/{mode}/{workspace}"


def shared_name(name: str) -> str | None:
    """Return the name of what all workspaces share with this circuit; None for that of a customer's own key."""
    provider, _, rest = name.partition("/")
    return f"{provider}/payg/" if rest.startswith("payg/") else None


def count_circuits(names: Iterable[str]) -> Counter[tuple[str, Mode, CircuitScope]]:
    """Return how many of these circuits each provider has in each mode, and for whom: no word of the workspaces."""
    parts = (name.partition("/") for name in names)
    found = ((provider, *rest.partition("/")[::2]) for provider, _, rest in parts)
    return Counter(
        (provider, _MODES[mode], "workspace" if workspace else "all")
        for provider, mode, workspace in found
        if mode in _MODES
    )


def state_of(circuit: Circuit, now_us: int) -> CircuitState:
    """Return what a circuit is now."""
    if not _remembered(circuit, now_us).is_open:
        return "closed"
    return "open" if now_us < circuit.retry_us else "half_open"


def after_success(_circuit: Circuit, _now_us: int) -> Circuit:
    """An attempt succeeded."""
    return CLOSED


def after_failure(circuit: Circuit, now_us: int) -> Circuit:
    """An attempt failed. While a circuit rests that tells nothing new."""
    circuit = _remembered(circuit, now_us)
    if circuit.is_open:
        rests = now_us < circuit.retry_us <= now_us + REST_US
        return circuit if rests else replace(circuit, retry_us=now_us + REST_US)
    if now_us - circuit.began_us > WINDOW_US:
        circuit = Circuit(began_us=now_us)
    failures = circuit.failures + 1
    return Circuit(failures, circuit.began_us, now_us + REST_US if failures >= FAILURES else 0)


def after_probe(circuit: Circuit, now_us: int) -> Circuit:
    """A call would go there. Where that changes the circuit, the call is its probe."""
    if state_of(circuit, now_us) != "half_open":
        return circuit
    return replace(circuit, retry_us=now_us + PROBE_US)


def probe_goes_on(circuit: Circuit, now_us: int, *, until_us: int) -> Circuit:
    """A probe is in flight that was waited for until ``until_us``; nothing else has happened meanwhile."""
    return replace(circuit, retry_us=now_us + PROBE_US) if circuit.retry_us == until_us else circuit


def probe_was_lost(circuit: Circuit, now_us: int, *, until_us: int) -> Circuit:
    """As ``probe_goes_on``, of a probe that ended and says nothing of the provider: another may follow at once."""
    return replace(circuit, retry_us=now_us) if circuit.retry_us == until_us else circuit


def shared_state(circuits: Iterable[Circuit], shared: Circuit, now_us: int) -> CircuitState:
    """Return what a provider is to all workspaces, by their ``circuits`` there."""
    shared = _remembered(shared, now_us)
    failing = [
        circuit
        for circuit in circuits
        if _remembered(circuit, now_us).is_open and circuit.began_us > shared.began_us
    ]
    if len(failing) < LEAST_WORKSPACES:
        return "closed"
    rests_until_us = max(min(circuit.retry_us for circuit in failing), shared.retry_us)
    return "open" if now_us < rests_until_us else "half_open"


def after_shared_success(_shared: Circuit, now_us: int) -> Circuit:
    """An attempt of some workspace succeeded."""
    return Circuit(1, now_us)


def after_shared_failure(shared: Circuit, now_us: int) -> Circuit:
    """An attempt of some workspace failed while the provider is passed over for all."""
    rests = now_us < shared.retry_us <= now_us + REST_US
    return shared if rests else replace(shared, failures=1, retry_us=now_us + REST_US)


def after_shared_probe(shared: Circuit, now_us: int) -> Circuit:
    """A call would go there, for all. Where that changes anything, the call is the probe."""
    is_waited_for = now_us < shared.retry_us <= now_us + PROBE_US
    return shared if is_waited_for else replace(shared, failures=1, retry_us=now_us + PROBE_US)


def forget(circuit: Circuit, now_us: int) -> Circuit:
    """Time passes: what says nothing of now any more need not be kept."""
    last_us = max(circuit.began_us, circuit.retry_us)
    return CLOSED if now_us - last_us > FORGET_US or circuit.began_us > now_us else circuit


def _remembered(circuit: Circuit, now_us: int) -> Circuit:
    """A circuit of the future is of a clock that began anew, and tells nothing either."""
    is_forgotten = circuit.is_open and now_us - circuit.retry_us > FORGET_US
    return CLOSED if is_forgotten or circuit.began_us > now_us else circuit
