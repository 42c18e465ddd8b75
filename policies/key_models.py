"""The models that a key may use: routes without the others, and patterns that match no model. Pure.

Source: docs/routing.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from policies.allowed_models import AllowedModels, fold_slug
from policies.model import Key, Model, Workspace
from policies.refusal import Refusal
from policies.route import Route
from policies.routing import CATALOG_ALIAS, CUSTOM, PINNED, TIER_1


def restrict_route(route: Route, key: Key) -> Route:
    """Return a route without the fallback that ``key`` may not use. Raises Refusal ``byok_required``.

    The model of the first attempt must be one of ``key.models``, whatever chose it.
    """
    allowed = key.models
    if allowed is None:
        return route
    first = route.targets[0]
    if not allowed.allows(first.model.slug):
        raise _not_allowed(first.model.slug, route.decided_by, allowed)
    usable = tuple([target for target in route.targets if allowed.allows(target.model.slug)])
    longer = tuple([target for target in route.long_prompt_targets if allowed.allows(target.model.slug)])
    route = replace(route, long_prompt_targets=longer) if longer != route.long_prompt_targets else route
    if len(usable) == len(route.targets):
        return route
    # The words name the table, because a hint of ``explain`` looks for missing provider keys in them.
    reason = f"fallback_model {route.targets[-1].model.slug} is outside the models of [[keys]] {key.id}"
    return replace(route, targets=usable, no_fallback_reason=reason)


def find_idle_patterns(key: Key, workspace: Workspace, models: Mapping[str, Model]) -> list[str]:
    """Return the patterns of ``key.models`` that match no model of the catalog, nor any name outside it.

    Names outside the catalog begin with a provider that the workspace has its own key for.
    """
    patterns = key.models.patterns if key.models else ()
    prefixes = [f"{fold_slug(name)}/" for name, byok in workspace.byok.items() if byok.routing]
    return [one for one in patterns if not _matches_any(one, models, prefixes)]


def _matches_any(pattern: str, slugs: Iterable[str], prefixes: Iterable[str]) -> bool:
    allowed, beginning = AllowedModels((pattern,)), fold_slug(pattern).removesuffix("*")
    is_custom = any(
        beginning.startswith(prefix) or (pattern.endswith("*") and prefix.startswith(beginning))
        for prefix in prefixes
    )
    return is_custom or any(allowed.allows(slug) for slug in slugs)


def _not_allowed(slug: str, decided_by: str, allowed: AllowedModels) -> Refusal:
    # A rule decides before the name, so another name does not help.
    is_of_rule = decided_by.startswith("rule ")
    remedy = "Use another key." if is_of_rule else "Name one of these, or use another key."
    listed = f"it may use {allowed}. {remedy}"
    if decided_by == CUSTOM:  # The name is the client's own text.
        return Refusal("byok_required", f"This API key may not use that model: {listed}", "model")
    if decided_by in (PINNED, TIER_1, CATALOG_ALIAS):
        return Refusal("byok_required", f"This API key may not use '{slug}': {listed}", "model")
    chosen_by = decided_by.partition(" (")[0]  # A keyword is the operator's own.
    message = f"The workspace's file chose '{slug}' ({chosen_by}), which this API key may not use: {listed}"
    return Refusal("byok_required", message)
