"""The table of a workspace's routes, which is made once for all its calls."""

from dataclasses import replace
from typing import Any

import pytest
from rig.routed_calls import MODELS, ON, PROVIDERS, When

from policies.model import Model
from policies.request_facts import RequestFacts
from policies.route_table import RouteTable


@pytest.mark.parametrize("max_routes", [1, 2, 100])
def test_a_table_has_routes_for_each_workspace(max_routes: int) -> None:
    table = RouteTable(MODELS, PROVIDERS, max_routes)
    workspaces = [replace(When(default=slug).workspace, id=slug) for slug in ("gpt", "llama", "kimi", "mine")]
    for _ in range(2):
        found = [table.find(RequestFacts(None, {"messages": []}), workspace) for workspace in workspaces]
        assert [route.targets[0].model.slug for route in found] == ["gpt", "llama", "kimi", "mine"]


@pytest.mark.parametrize("max_routes", [1, 3])
def test_a_table_keeps_no_more_routes_than_its_bound(max_routes: int) -> None:
    table = RouteTable(MODELS, PROVIDERS, max_routes)
    for number in range(10):
        table.find(RequestFacts("gpt", {"messages": []}), replace(When().workspace, id=f"w{number}"))
        assert len(table._by_choice) <= max_routes
        assert len(table._by_name) <= max_routes


class CountingModels(dict[str, Model]):
    """Models that count how often a route is chosen among them."""

    chosen = 0

    def get(self, *asked: Any) -> Any:
        self.chosen += 1
        return super().get(*asked)


def test_a_route_of_an_alias_is_chosen_once_for_all_names_that_it_stands_for() -> None:
    models = CountingModels(MODELS)
    table, workspace = RouteTable(models, PROVIDERS), When(aliases=(("haiku-*", "gpt"),)).workspace
    first = table.find(RequestFacts("haiku-4", {"messages": []}), workspace)
    chosen = models.chosen
    for name in ("haiku-4", "Haiku-5"):
        assert table.find(RequestFacts(name, {"messages": []}), workspace) is first
    assert models.chosen == chosen > 0


def test_workspaces_share_a_target_with_a_platform_key_and_none_with_their_own() -> None:
    table = RouteTable(MODELS, PROVIDERS)
    for byok, is_shared in (({}, True), (ON, False)):
        workspaces = [replace(When(byok=byok).workspace, id=f"{name} {is_shared}") for name in ("a", "b")]
        one, other = (
            table.find(RequestFacts("gpt", {"messages": []}), workspace) for workspace in workspaces
        )
        assert one.targets == other.targets
        assert (one.targets[0] is other.targets[0]) == is_shared
