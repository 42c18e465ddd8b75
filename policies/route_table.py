"""The routes of one set of settings, each made once.

Calls share a route and its targets, so they also share what was made from a target (``Target.kept``).
"""

from collections.abc import Mapping

from policies.model import Model, Provider, Route, Workspace
from policies.request_facts import RequestFacts
from policies.routing import choose_route


class RouteTable:
    """Finds routes as ``choose_route`` does. It dies with its settings, and so do the secrets in it.

    It keeps routes to models of the catalog only. A name outside the catalog may be any text, so there is no end of
    them. A refusal is never kept.
    """

    def __init__(self, models: Mapping[str, Model], providers: Mapping[str, Provider]) -> None:
        self._models = models
        self._providers = providers
        self._by_name: dict[tuple[str, str | None], Route] = {}
        self._by_choice: dict[tuple[str, str, str], Route] = {}

    def find(self, request: RequestFacts, workspace: Workspace) -> Route:
        """Return the route of a request. ``workspace`` is one of the settings. Raises Refusal as ``choose_route``."""
        # Without rules and heuristics, nothing of the request matters but the name.
        depends_on_content = bool(workspace.rules or workspace.heuristics)
        named = (workspace.id, request.model)
        if not depends_on_content and (known := self._by_name.get(named)):
            return known
        route = choose_route(request, workspace, self._models, self._providers)
        slug = route.targets[0].model.slug
        if slug not in self._models:
            return route
        route = self._by_choice.setdefault((workspace.id, slug, route.decided_by), route)
        if not depends_on_content and (request.model is None or request.model in self._models):
            self._by_name[named] = route
        return route
