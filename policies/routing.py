"""Routing: the model that serves a call, and the key that it is called with, as a ``Route`` or a ``Refusal``.

The first of these that applies decides:

1. a slug that the client pins, if the workspace has its own key for it (nothing overrides this)
2. the workspace's aliases
3. keyword rules
4. any other pinned slug, and the catalog's aliases
5. heuristics
6. the default model

Source: docs/routing.md; contract, "Chat request body" (model) and "Errors" (bad_request, invalid_state, byok_required).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from policies.fallback import NoFallback, choose_fallback, list_long_prompt_targets
from policies.keywords import RuleText
from policies.model import Model, Workspace
from policies.model_names import ModelNames, is_slug_of
from policies.places import has_own_place, list_own_targets, list_platform_targets
from policies.prices import Prices
from policies.provider import Provider
from policies.refusal import Refusal
from policies.request_facts import RequestFacts
from policies.route import Route, Target
from policies.route_refusals import LISTED, inactive_model, no_route, refused_name, to_enable
from policies.routing_rules import Heuristic

# As long as a slug may be. An id may have several path segments, but none that changes the path of a URL.
_CUSTOM_NAME: Final = re.compile(r"(?=.{3,200}\Z)[A-Za-z0-9_]++(?:/(?!\.{1,2}(?:/|\Z))[!#-.0-\[\]-~]++)++")
_FREE: Final = Prices(0, 0, 0)
PINNED: Final = "pinned"
TIER_1: Final = "byok_tier1"
CUSTOM: Final = "custom_model"
CATALOG_ALIAS: Final = "catalog_alias"
_WELL_FORMED: Final = (
    "The name of a model outside the catalog has at most 200 characters of printable ASCII, "
    "without spaces, quotes, backslashes and empty, '.' or '..' segments."
)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A model, the rule that chose it and, where the workspace's file names the model, the key there."""

    model: Model
    decided_by: str
    named_in: str | None = None


def choose_route(
    request: RequestFacts,
    workspace: Workspace,
    names: ModelNames,
    providers: Mapping[str, Provider],
) -> Route:
    """Return the route of a request. Raises Refusal ``bad_request``, ``invalid_state`` or ``byok_required``.

    ``policies.fallback`` chooses what follows the model's own places. Each refusal says what to change. It never
    repeats a name from the client, because some people put a key there by mistake.
    """
    models, listed = names.models, None
    if request.model is not None:
        listed = _listed(request.model, names, providers)
    choice = (
        _by_name(request.model, listed, workspace, models, providers)
        or _by_rule(request, workspace, models)
        or _pinned(request.model, listed)
        or _by_heuristic(request, workspace, models)
        or _by_default(workspace, models)
    )
    if choice is None:
        raise no_route(request.model)
    if not choice.model.active:
        raise inactive_model(choice.model.slug, choice.named_in)
    own = _targets(choice, workspace)
    longer = list_long_prompt_targets(own[0], workspace, models)
    then = choose_fallback(own[0], workspace, models)
    if isinstance(then, NoFallback):
        return Route(own, choice.decided_by, then.reason, then.refusal, long_prompt_targets=longer)
    return Route((*own, *then), choice.decided_by, long_prompt_targets=longer)


# --- the rules ----------------------------------------------------------------------------------------------


def _listed(name: str, names: ModelNames, providers: Mapping[str, Provider]) -> Model | None:
    """Return the model of the catalog that ``name`` means. ``provider/id`` comes before a name in another case."""
    if model := names.find_exact(name):
        return model
    return None if _provider_named(name, providers) else names.find(name)


def _provider_named(name: str, providers: Mapping[str, Provider]) -> Provider | None:
    """Return the provider before the first slash of ``name``, in any case."""
    prefix, slash, _ = name.partition("/")
    return providers.get(prefix.upper()) if slash else None


def _by_name(
    name: str | None,
    listed: Model | None,
    workspace: Workspace,
    models: Mapping[str, Model],
    providers: Mapping[str, Provider],
) -> _Choice | None:
    """Return the choice of a name before any rule: BYOK Tier 1, a workspace's alias, a model outside the catalog.

    Raises Refusal for an unknown name where the workspace has a key of its own with routing on.
    """
    if name is None:
        return None
    pins_own = listed is not None and has_own_place(listed, workspace) and is_slug_of(listed, name)
    if listed and listed.active and pins_own:
        return _Choice(listed, TIER_1)
    if (place := workspace.aliases.find(name)) is not None:
        alias = workspace.aliases.entries[place]
        return _named(alias.model, models, alias.decided_by, f"aliases[{place}].model")
    if listed:
        return _Choice(listed, TIER_1) if pins_own else None
    if provider := _provider_named(name, providers):
        return _Choice(_custom_model(name, provider, workspace), CUSTOM)
    if any(byok.routing for byok in workspace.byok.values()):
        raise no_route(name)
    return None


def _by_rule(request: RequestFacts, workspace: Workspace, models: Mapping[str, Model]) -> _Choice | None:
    if not workspace.rules:
        return None
    text = RuleText(request.last_user_text)
    for index, rule in enumerate(workspace.rules):
        if keyword := rule.prepared.find_in(text):
            return _named(rule.model, models, f"rule {index + 1} ({keyword})", f"rules[{index}].model")
    return None


def _pinned(name: str | None, listed: Model | None) -> _Choice | None:
    if name is None or listed is None:
        return None
    return _Choice(listed, PINNED if is_slug_of(listed, name) else CATALOG_ALIAS)


def _by_heuristic(request: RequestFacts, workspace: Workspace, models: Mapping[str, Model]) -> _Choice | None:
    for index, heuristic in enumerate(workspace.heuristics):
        if _applies(heuristic, request):
            decided_by, named_in = f"heuristic {heuristic.when}", f"heuristics[{index}].model"
            return _named(heuristic.model, models, decided_by, named_in)
    return None


def find_matches(request: RequestFacts, workspace: Workspace) -> Iterator[tuple[str, str, str | None]]:
    """Yield each rule and heuristic of a workspace in order: its name, its model, and what it matches, None if nothing.

    The alias of the requested name comes before them, if there is one. The first that matches decides, unless
    something else comes before it.
    """
    place = None if request.model is None else workspace.aliases.find(request.model)
    if place is not None:
        alias = workspace.aliases.entries[place]
        yield alias.decided_by, alias.model, request.model
    text = RuleText(request.last_user_text)
    for number, rule in enumerate(workspace.rules, 1):
        yield f"rule {number} ({', '.join(rule.keywords)})", rule.model, rule.prepared.find_in(text)
    for heuristic in workspace.heuristics:
        matched = heuristic.when if _applies(heuristic, request) else None
        yield f"heuristic {heuristic.when}", heuristic.model, matched


def _applies(heuristic: Heuristic, request: RequestFacts) -> bool:
    match heuristic.when:
        case "images":
            return request.has_images
        case "tools":
            return request.has_tools
        case "json":
            return request.wants_json
        case "prompt_tokens_above":
            threshold = heuristic.threshold_tokens
            return threshold is not None and request.prompt_tokens > threshold


def _by_default(workspace: Workspace, models: Mapping[str, Model]) -> _Choice | None:
    slug = workspace.default_model
    return None if slug is None else _named(slug, models, "default", "default_model")


def _named(slug: str, models: Mapping[str, Model], decided_by: str, named_in: str) -> _Choice:
    """Return the choice of a model that the workspace's file names.

    A valid file may name a model that was later removed from the catalog. Only the calls that need it are refused.
    """
    if model := models.get(slug):
        return _Choice(model, decided_by, named_in)
    raise inactive_model(slug, named_in)


def _custom_model(name: str, provider: Provider, workspace: Workspace) -> Model:
    """Return a model outside the catalog, at a provider that the workspace has its own key for."""
    if provider.auth == "none" or provider.builtin:
        raise refused_name(
            f"{provider.name} takes no customer's key, so it serves models of the catalog only: {LISTED}."
        )
    if workspace.routed_key(provider) is None:
        raise refused_name(
            f"A model of {provider.name} outside the catalog needs your own {provider.name} key: "
            f"{to_enable(workspace, provider)}, or name a model of the catalog ({LISTED})."
        )
    if not _CUSTOM_NAME.fullmatch(name):
        raise refused_name(_WELL_FORMED)
    return Model(
        slug=name,
        provider=provider,
        upstream_model_id=name.partition("/")[2],
        family=provider.custom_family,
        wholesale=_FREE,
        retail=_FREE,
        max_completion_tokens=None,
        byok_only=True,
        active=True,
        serves=None,
    )


# --- the key --------------------------------------------------------------------------------------------


def _targets(choice: _Choice, workspace: Workspace) -> tuple[Target, ...]:
    """Return the places of a model: with the customer's own keys if the routing of one is on, else the platform's."""
    model = choice.model
    if has_own_place(model, workspace):
        return list_own_targets(model, workspace) or _raise_no_stored_key(model, workspace)
    if model.byok_only:
        why = f"'{model.slug}' is served with your own {model.provider.name} key only"
        raise _own_key_needed(choice, workspace, why)
    return list_platform_targets(model) or _raise_no_platform_key(choice, workspace)


def _raise_no_stored_key(model: Model, workspace: Workspace) -> NoReturn:
    name = next(place.provider.name for place in model.places if workspace.routed_key(place.provider))
    raise Refusal(
        "invalid_state",
        f"The BYOK route to {name} has no stored key: set what 'secret' in [byok.{name}] "
        "of the workspace's file refers to.",
    )


def _raise_no_platform_key(choice: _Choice, workspace: Workspace) -> NoReturn:
    provider = choice.model.provider
    why = f"There is no platform key for '{choice.model.slug}'"
    # The client chose the model. A model that the workspace's file names is the operator's choice.
    if choice.named_in is None:
        raise _own_key_needed(
            choice, workspace, f"{why}, so it is served with your own {provider.name} key only"
        )
    raise Refusal(
        "invalid_state",
        f"{why}: set the key of [{provider.name}] in providers.toml, "
        f"{to_enable(workspace, provider)}{_or_elsewhere(choice)}.",
    )


def _own_key_needed(choice: _Choice, workspace: Workspace, why: str) -> Refusal:
    message = f"{why}: {to_enable(workspace, choice.model.provider)}{_or_elsewhere(choice)}."
    return Refusal("byok_required", message, _param(choice))


# --- messages ----------------------------------------------------------------------------------------------


def _or_elsewhere(choice: _Choice) -> str:
    return f", or change its {choice.named_in}" if choice.named_in else ", or name another model"


def _param(choice: _Choice) -> str | None:
    return None if choice.named_in else "model"
