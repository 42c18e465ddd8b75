"""When a provider that keeps failing is passed over: its circuit opens after failures in a row and closes at a success.

Closed → open: ``FAILURES`` attempts in a row failed, all within ``WINDOW_US``. Open → half-open: it rested for
``REST_US``. Half-open: one call, the probe, may try it while the others go elsewhere; if that fails it rests again.
Whatever succeeds closes it, and one that nobody tries is forgotten. A call that can't go elsewhere is sent all the
same, and what becomes of it counts, too.
Times are readings of one clock, in µs. Source: docs/decisions/a-failing-provider-is-passed-over.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from policies.facts import Attempt, Mode, Workspace

FAILURES = 5
WINDOW_US = 60_000_000
REST_US = 30_000_000
PROBE_US = 150_000_000
"""How long a probe is waited for that says nothing: longer than a provider has for its first byte by default."""
FORGET_US = 600_000_000
"""How long after its rest a circuit that nobody tried is remembered: what failed then tells nothing of now."""

CircuitState = Literal["closed", "open", "half_open"]


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
    """Return which circuit an attempt belongs to: the provider's, or that of a customer's own key there.

    A customer's key that is revoked, or out of its quota, keeps nobody else away from the provider.
    """
    return provider if mode == "payg" else f"{provider}/{workspace}"


def count_circuits(names: Iterable[str]) -> Counter[tuple[str, Mode]]:
    """Return how many of these circuits each provider has in each mode: ``circuit_name`` without the workspaces."""
    parts = (name.partition("/") for name in names)
    return Counter((provider, "byok" if slash else "payg") for provider, slash, _ in parts)


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


def _remembered(circuit: Circuit, now_us: int) -> Circuit:
    """A circuit of the future is of a clock that began anew, and tells nothing either."""
    is_forgotten = circuit.is_open and now_us - circuit.retry_us > FORGET_US
    return CLOSED if is_forgotten or circuit.began_us > now_us else circuit
