"""Circuit breakers: calls skip a provider that keeps failing.

| state | begins | calls that have a fallback |
|---|---|---|
| closed | at the start, after any success, and after no attempt for ``FORGET_US`` | are sent |
| open | after ``FAILURES`` failures in a row within ``WINDOW_US``, or a failed probe; rests for ``REST_US`` | skip it |
| half-open | after the rest | one of them is the probe; the others skip it |

A call without a fallback is always sent, and its outcome counts, too. Each place of a model that has several has
circuits of its own; all other models of a provider share one.

Each workspace has circuits of its own, because a customer can provoke failures, and these must not affect others. With
the platform's keys, a provider is also skipped for all workspaces. This lasts while the circuits of
``LEAST_WORKSPACES`` of them are open, and no workspace has succeeded since the first of these failures. The shared
state of a provider is a ``Circuit`` of one failure, which is never open itself: ``began_us`` is the time of the last
noted success, ``retry_us`` the time when all may try again.

Times are readings of one clock, in µs. Source: docs/decisions/circuit-breakers-skip-failing-providers.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from policies.model import Mode, Model, Workspace
from policies.route import Target

FAILURES = 5
WINDOW_US = 60_000_000
REST_US = 15_000_000
"""Two rests fit into half a minute: a place that recovered serves again within that, even if a probe just failed."""
PROBE_US = 60_000_000
"""How long others wait for a probe whose process does not renew it."""
LEAST_WORKSPACES = 2
REPORT_US = 60_000_000
"""How long after its rest an untried circuit is still reported as open. A gauge must not stay up without traffic."""
FORGET_US = 600_000_000
"""How long after its rest an untried circuit is kept. Later, its failures say nothing about the present."""

CircuitState = Literal["closed", "open", "half_open"]
CircuitScope = Literal["workspace", "all"]

_MODES: Mapping[str, Mode] = {"payg": "payg", "byok": "byok"}


@dataclass(frozen=True, slots=True)
class Circuit:
    """The number of failures in a row, the time of the first one and, if open, the time of the next probe."""

    failures: int = 0
    began_us: int = 0
    retry_us: int = 0

    @property
    def is_open(self) -> bool:
        """Whether calls that have a fallback skip it, except a probe."""
        return self.failures >= FAILURES


CLOSED = Circuit()

type Change = Callable[[Circuit, int], Circuit]
"""A function that returns the next state of a circuit at a time."""


def circuit_of(target: Target, workspace: Workspace) -> str:
    """Return the name of the circuit of a target for a workspace."""
    return circuit_name(_place_of(target.model), target.mode, workspace.id)


def _place_of(model: Model) -> str:
    """Return what fails together: a provider, or one place of a model that has several.

    These may be of one provider, each with a quota and a deployment of its own.
    """
    provider = model.provider.name
    if not model.has_siblings:
        return provider
    return f"{provider}:{model.upstream_model_id.replace('/', '|')}"


def circuit_name(place: str, mode: Mode, workspace: str) -> str:
    """Return the name of the circuit of a workspace at a provider, or at one place of it, by mode.

    BYOK has circuits of its own: a customer's key that is revoked or over its quota says nothing about platform keys.
    """
    return f"{place}/{mode}/{workspace}"


def shared_name(name: str) -> str | None:
    """Return the name of the shared state that a circuit belongs to, None for a circuit of a customer's own key."""
    provider, _, rest = name.partition("/")
    return f"{provider}/payg/" if rest.startswith("payg/") else None


CIRCUIT_KINDS: tuple[tuple[Mode, CircuitScope], ...] = (
    ("payg", "all"),
    ("payg", "workspace"),
    ("byok", "workspace"),
)
"""The kinds of circuits that are counted for each provider."""


def count_circuits(names: Iterable[str]) -> Counter[tuple[str, Mode, CircuitScope]]:
    """Return the number of these circuits by provider, mode and scope. It names no workspace."""
    parts = (name.partition("/") for name in names)
    found = ((place.partition(":")[0], *rest.partition("/")[::2]) for place, _, rest in parts)
    return Counter(
        (provider, _MODES[mode], "workspace" if workspace else "all")
        for provider, mode, workspace in found
        if mode in _MODES
    )


def describe_circuits(open_circuits: Iterable[str]) -> str:
    """Return the circuits that are not closed: providers by name, and how many customers are affected."""
    counts = count_circuits(open_circuits)
    parts = sorted(provider for provider, _, scope in counts if scope == "all")
    parts += [
        f"{provider} for {count} of the workspaces"
        for (provider, mode, scope), count in sorted(counts.items())
        if (mode, scope) == ("payg", "workspace") and (provider, "payg", "all") not in counts
    ]
    if customers := sum(count for (_, mode, _), count in counts.items() if mode == "byok"):
        parts.append(f"{customers} of customers' keys")
    return f"open: {', '.join(parts)}" if parts else "ok"


def state_of(circuit: Circuit, now_us: int) -> CircuitState:
    """Return the state of a circuit at ``now_us``."""
    if not _unless_outdated(circuit, now_us).is_open:
        return "closed"
    return "open" if now_us < circuit.retry_us else "half_open"


def is_passed_over(known: Mapping[str, Circuit], name: str, now_us: int) -> bool:
    """Return whether calls that have a fallback skip a circuit, of all ``known`` ones, except for a probe."""
    if state_of(known.get(name, CLOSED), now_us) != "closed":
        return True
    shared = shared_name(name)
    if shared is None:
        return False
    members = [one for other, one in known.items() if other.startswith(shared) and other != shared]
    return state_of(shared_circuit(members, known.get(shared, CLOSED), now_us), now_us) != "closed"


def is_reported_open(circuit: Circuit, now_us: int) -> bool:
    """Return whether a circuit counts as open in metrics and in ``/readyz``.

    It is not closed, and an attempt confirmed that lately: while calls come, a failed probe follows each rest.
    """
    return state_of(circuit, now_us) != "closed" and now_us < circuit.retry_us + REPORT_US


def after_success(_circuit: Circuit, _now_us: int) -> Circuit:
    """Return a circuit after an attempt succeeded."""
    return CLOSED


def after_failure(circuit: Circuit, now_us: int) -> Circuit:
    """Return a circuit after an attempt failed. While the circuit rests, nothing changes."""
    circuit = _unless_outdated(circuit, now_us)
    if circuit.is_open:
        rests = now_us < circuit.retry_us <= now_us + REST_US
        return circuit if rests else replace(circuit, retry_us=now_us + REST_US)
    if now_us - circuit.began_us > WINDOW_US:
        circuit = Circuit(began_us=now_us)
    failures = circuit.failures + 1
    return Circuit(failures, circuit.began_us, now_us + REST_US if failures >= FAILURES else 0)


def after_probe(circuit: Circuit, now_us: int) -> Circuit:
    """Return a circuit after a call asks to try it. Where that changes the circuit, the call is its probe."""
    if state_of(circuit, now_us) != "half_open":
        return circuit
    return replace(circuit, retry_us=now_us + PROBE_US)


def renew_probe(circuit: Circuit, now_us: int, *, until_us: int) -> Circuit:
    """Renew the wait for a probe in flight, unless the circuit no longer waits until ``until_us``."""
    return replace(circuit, retry_us=now_us + PROBE_US) if circuit.retry_us == until_us else circuit


def release_probe(circuit: Circuit, now_us: int, *, until_us: int) -> Circuit:
    """End the wait for a probe that ended without an outcome, as ``renew_probe`` does. Another may follow at once."""
    return replace(circuit, retry_us=now_us) if circuit.retry_us == until_us else circuit


def shared_circuit(circuits: Iterable[Circuit], shared: Circuit, now_us: int) -> Circuit:
    """Return the circuit of a provider for all workspaces, from their ``circuits`` at it."""
    shared = _unless_outdated(shared, now_us)
    failing = [
        circuit
        for circuit in circuits
        if _unless_outdated(circuit, now_us).is_open and circuit.began_us > shared.began_us
    ]
    if len(failing) < LEAST_WORKSPACES:
        return CLOSED
    began_us = min(circuit.began_us for circuit in failing)
    return Circuit(FAILURES, began_us, max(min(circuit.retry_us for circuit in failing), shared.retry_us))


def after_shared_success(_shared: Circuit, now_us: int) -> Circuit:
    """Return the shared state after an attempt of any workspace succeeded."""
    return Circuit(1, now_us)


def after_shared_failure(shared: Circuit, now_us: int) -> Circuit:
    """Return the shared state after an attempt failed while the provider is skipped for all."""
    rests = now_us < shared.retry_us <= now_us + REST_US
    return shared if rests else replace(shared, failures=1, retry_us=now_us + REST_US)


def after_shared_probe(shared: Circuit, now_us: int) -> Circuit:
    """Return the shared state after a call asks to try the provider. Where it changes, the call is the probe."""
    is_waited_for = now_us < shared.retry_us <= now_us + PROBE_US
    return shared if is_waited_for else replace(shared, failures=1, retry_us=now_us + PROBE_US)


def forget(circuit: Circuit, now_us: int) -> Circuit:
    """Return a circuit, or a closed one in place of one that is too old to say anything about the present."""
    last_us = max(circuit.began_us, circuit.retry_us)
    return CLOSED if now_us - last_us > FORGET_US or circuit.began_us > now_us else circuit


def _unless_outdated(circuit: Circuit, now_us: int) -> Circuit:
    """Return a circuit, or a closed one in place of one that is too old, or from a clock that was reset since."""
    is_outdated = circuit.is_open and now_us - circuit.retry_us > FORGET_US
    return CLOSED if is_outdated or circuit.began_us > now_us else circuit
