"""The order in which a call tries the places of its model."""

from dataclasses import replace

import pytest
from rig.routed_calls import MODELS, PLATFORM, PROVIDERS

from policies.affinity import find_affinity
from policies.model import Model, Order
from policies.place_order import order_route
from policies.route import Route, Target

COST = {"a": 3.0, "b": 1.0, "c": 1.0}


def place(name: str, order: Order, weight: int = 1) -> Target:
    model: Model = replace(
        MODELS["gpt"], upstream_model_id=name, order=order, weight=weight, has_siblings=True
    )
    return Target(model, "payg", PLATFORM)


def affinity(number: int) -> bytes:
    return find_affinity("acme", {"messages": []}, f"run {number}")


def orders(route: Route, measured: bool = True) -> set[str]:
    """Return the orders that many calls have, each as the ids of the places."""
    measures = {"cheapest": lambda target: COST[target.model.upstream_model_id]} if measured else {}
    ordered = [order_route(route, affinity(number), measures) for number in range(200)]
    return {"".join(target.model.upstream_model_id for target in one.targets) for one in ordered}


@pytest.mark.parametrize(
    ("order", "weights", "expected"),
    [
        ("first", (1, 1, 1), {"abc"}),
        ("first", (0, 1, 1), {"bca"}),
        ("sticky", (1, 1, 1), {"abc", "acb", "bac", "bca", "cab", "cba"}),
        ("sticky", (1, 0, 1), {"acb", "cab"}),
        # The conversation decides between equal ones.
        ("cheapest", (1, 1, 1), {"bca", "cba"}),
        ("cheapest", (1, 0, 1), {"cab"}),
    ],
)
def test_the_order_is_that_of_the_model(
    order: Order, weights: tuple[int, int, int], expected: set[str]
) -> None:
    targets = tuple(place(name, order, weight) for name, weight in zip("abc", weights, strict=True))
    assert orders(Route(targets, "pinned")) == expected


def test_an_order_without_a_measure_is_that_of_the_conversation() -> None:
    targets = tuple(place(name, "cheapest") for name in "ab")
    assert orders(Route(targets, "pinned"), measured=False) == {"ab", "ba"}


def test_the_places_of_the_model_stay_before_those_of_its_fallback() -> None:
    fallback = replace(MODELS["llama"], provider=PROVIDERS["GROQ"], order="sticky")
    followed = tuple(
        Target(replace(fallback, upstream_model_id=name), "payg", PLATFORM, is_fallback=True) for name in "xy"
    )
    route = Route((place("a", "sticky"), place("b", "sticky"), *followed), "pinned")
    assert route.has_choice
    assert orders(route) == {"abxy", "abyx", "baxy", "bayx"}


def test_a_route_with_one_place_for_each_model_has_no_choice() -> None:
    followed = Target(MODELS["llama"], "payg", PLATFORM, is_fallback=True)
    assert not Route((place("a", "sticky"), followed), "pinned").has_choice
