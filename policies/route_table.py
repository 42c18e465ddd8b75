"""The routes of one set of settings, each made once.

Calls share a route and its targets, so they also share what was made from a target (``Target.kept``).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from policies.model import Model, Workspace
from policies.model_names import ModelNames
from policies.provider import Provider
from policies.request_facts import RequestFacts
from policies.route import MAX_ATTEMPTS, Route, Target
from policies.routing import choose_route

MAX_ROUTES: Final = 10_000
"""The most routes that a table keeps. A gateway with more workspaces and models than that in use starts again."""


class RouteTable:
    """Finds routes as ``choose_route`` does. It dies with its settings, and so do the secrets in it.

    It keeps routes to models of the catalog only. A name outside the catalog may be any text. A refusal is never kept.
    All workspaces share the targets with platform keys.
    """

    def __init__(
        self,
        models: Mapping[str, Model],
        providers: Mapping[str, Provider],
        max_routes: int = MAX_ROUTES,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> None:
        self._names = ModelNames(models)
        self._providers = providers
        self._max_attempts = max_attempts
        self._max_routes = max_routes
        self._by_name: dict[tuple[str, str | None], Route] = {}
        self._by_choice: dict[tuple[str, str, str], Route] = {}
        self._on_the_platform: dict[tuple[str, str, bool], Target] = {}

    def find(self, request: RequestFacts, workspace: Workspace) -> Route:
        """Return the route of a request. ``workspace`` is one of the settings. Raises Refusal as ``choose_route``."""
        # Without rules and heuristics, nothing of the request matters but the name.
        depends_on_content = bool(workspace.rules or workspace.heuristics)
        named = (workspace.id, request.model)
        if not depends_on_content and (known := self._by_name.get(named)):
            return known
        if workspace.aliases and (known := self._find_aliased(request.model, workspace)):
            return known
        route = choose_route(request, workspace, self._names, self._providers)
        slug = route.targets[0].model.slug
        if slug not in self._names.models:
            return replace(route, max_attempts=self._max_attempts)
        route = self._keep((workspace.id, slug, route.decided_by), route)
        if not depends_on_content and self._has_name(request.model):
            self._by_name[named] = route
        return route

    def _find_aliased(self, name: str | None, workspace: Workspace) -> Route | None:
        """Return the known route of a workspace's alias, for a name of no model: else Tier 1 may come before it."""
        place = None if name is None else workspace.aliases.find(name)
        if name is None or place is None or self._names.find(name):
            return None
        alias = workspace.aliases.entries[place]
        return self._by_choice.get((workspace.id, alias.model, alias.decided_by))

    def _has_name(self, name: str | None) -> bool:
        """Return whether the catalog has a name to the letter: any other may be any text."""
        return name is None or self._names.find_exact(name) is not None

    def _keep(self, choice: tuple[str, str, str], route: Route) -> Route:
        """Return the known route of a choice, or keep ``route`` for it."""
        if known := self._by_choice.get(choice):
            return known
        if len(self._by_choice) >= self._max_routes or len(self._by_name) >= self._max_routes:
            self._by_choice.clear()
            self._by_name.clear()
        targets = tuple([self._share(target) for target in route.targets])
        longer = tuple([self._share(target) for target in route.long_prompt_targets])
        made = replace(route, targets=targets, long_prompt_targets=longer, max_attempts=self._max_attempts)
        self._by_choice[choice] = made
        return made

    def _share(self, target: Target) -> Target:
        if target.mode != "payg":
            return target
        place = (target.model.slug, target.model.place, target.is_fallback)
        return self._on_the_platform.setdefault(place, target)
