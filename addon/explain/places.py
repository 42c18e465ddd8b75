"""Why each place of a call's route is where it is in the list, and why other places are not in it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from addon.calls.call_state import Call
from addon.calls.upstream_request import estimate_wholesale_nanousd
from addon.runtime.clock import SYSTEM_CLOCK, monotonic_us
from addon.settings.settings import Settings
from addon.store.money.ledger import Ledger
from addon.store.money.reports.report import has_table
from addon.store.protocol import StoreUnavailable
from addon.store.rates.sqlite.circuits import SELECT_CIRCUITS
from policies.circuit_breaker import Circuit, circuit_of, is_passed_over
from policies.model import Model, Workspace
from policies.money import format_nanousd
from policies.route import Target


class KnownCircuits(NamedTuple):
    """All circuits that are not closed, by name, and the time of their clock."""

    circuits: Mapping[str, Circuit]
    now_us: int


class KnownStates(NamedTuple):
    """What is known of the running gateways. ``checks`` are those of ``/readyz``, None outside of a gateway."""

    circuits: KnownCircuits | None = None
    checks: Mapping[str, str] | None = None


class LeftOut(NamedTuple):
    """A place that no attempt of the call is made at, and why."""

    model_slug: str
    place: str
    reason: str


def read_circuits(ledger: Ledger, settings: Settings) -> KnownCircuits | None:
    """Return the circuits of the gateways of this machine. None: they are in Redis, or can't be read."""
    if settings.conf.state.backend != "sqlite":
        return None
    try:
        rows = ledger.execute(SELECT_CIRCUITS).fetchall() if has_table(ledger, "circuits") else []
    except StoreUnavailable:
        return None
    circuits = {name: Circuit(*values) for name, *values in rows}
    return KnownCircuits(circuits, monotonic_us(SYSTEM_CLOCK))


def find_reasons(call: Call, target: Target, known: KnownCircuits | None) -> Iterator[str]:
    """Yield why a target is where it is in the route, and why live calls would pass over it now."""
    if target.model.has_siblings:
        yield _explain_order(call, target)
    has_others = len(call.exchange.route.targets) > 1
    if has_others and target.mode == "payg" and target.model.quota is not None:
        known_to = "whether that is used up is known to the running gateway alone"
        yield f"it has a quota ({target.model.quota}): {known_to}"
    if (
        known
        and has_others
        and is_passed_over(known.circuits, circuit_of(target, call.exchange.workspace), known.now_us)
    ):
        yield "its circuit is open: calls pass over it now, if another target can serve"


def _explain_order(call: Call, target: Target) -> str:
    model = target.model
    group = [one for one in call.exchange.route.targets if _group_of(one) == _group_of(target)]
    at = next(at for at, one in enumerate(group) if one.model.place == model.place)
    if len(group) == 1:
        return "the only place of its model that there is a key for"
    if model.weight == 0 and any(one.model.weight for one in group):
        return "weight 0: it serves if the others can't"
    if model.order == "first":
        return "order first: the first of models.toml" if at == 0 else "order first: next in models.toml"
    if model.order == "cheapest":
        cost = format_nanousd(round(estimate_wholesale_nanousd(call, target)))
        return f"order cheapest: some {cost} USD for this call at wholesale"
    if model.order == "fastest":
        return "order fastest: only the running gateway knows which is, so that its order may differ"
    share = f"weight {model.weight} of {sum(one.model.weight for one in group)}"
    if at == 0:
        return f"order sticky: the place of this conversation ({share})"
    return f"order sticky: the place of this conversation if those before can't serve ({share})"


def _group_of(target: Target) -> tuple[str, str]:
    return target.model.slug, target.mode


def find_left_out(call: Call, tried: Sequence[Target]) -> Iterator[LeftOut]:
    """Yield the places of the route's models without a key, and the targets beyond the bound of attempts."""
    workspace, route = call.exchange.workspace, call.exchange.route
    for slug, mode in dict.fromkeys(map(_group_of, route.targets)):
        listed = call.settings.models.get(slug)
        served = {one.model.place for one in route.targets if _group_of(one) == (slug, mode)}
        for place in listed.places if listed else ():
            if place.place not in served:
                yield LeftOut(slug, place.place, _describe_missing_key(place, mode, workspace))
    named = {(*_group_of(one), one.model.place) for one in tried}
    for target in route.targets:
        if (*_group_of(target), target.model.place) not in named:
            reason = f"a call makes at most {route.max_attempts} attempts"
            yield LeftOut(target.model.slug, target.model.place, reason)


def _describe_missing_key(place: Model, mode: str, workspace: Workspace) -> str:
    name = place.provider.name
    if mode == "payg":
        return f"{name} has no platform key"
    own = workspace.routed_key(place.provider)
    if own is None:
        return f"the workspace has no key of its own for {name}"
    return f"the workspace's own key for {name} is not set"


def find_unknown(call: Call, known: KnownStates) -> Iterator[str]:
    """Yield what decides in the running gateway and is not known for each target here.

    With one target nothing of it decides.
    """
    if len(call.exchange.route.targets) < 2:
        return
    if known.checks is None:
        yield "Which keys and places rest is known to the running gateway alone: it passes over those."
    else:
        yield f"Platform keys that rest now: {_shown(known.checks.get('platform_keys'))}."
        yield "Which places rest is known to each process of the gateway alone: it passes over those."
    if known.circuits is None and known.checks is None:
        yield "Which circuits are open is not known here: /readyz of the gateway shows it."
    elif known.circuits is None and known.checks is not None:
        yield f"Circuits that are open: {_shown(known.checks.get('circuits'))}."


def _shown(check: str | None) -> str:
    return "none" if check == "ok" else check or "not known"
