"""The order in which a call tries the places of its model. Pure.

| ``order`` of the model | tried first |
|---|---|
| ``sticky`` | the place of the call's conversation, by weight |
| ``first`` | the one that models.toml has first |
| ``cheapest`` | the one with the least estimated wholesale cost |
| ``fastest`` | the one with the shortest time to the first byte, of late |

Where places are equal, the conversation decides. A place of weight 0 comes after all others. Source: docs/routing.md.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from policies.affinity import distance
from policies.route import Route, Target

type Measure = Callable[[Target], float]
"""A function that returns by how much a target is worse than others: its cost, or its time to the first byte."""


def order_route(route: Route, affinity: bytes, measures: dict[str, Measure]) -> Route:
    """Return a route with the places of each model in the order of one call. ``measures`` are by ``order``."""
    first, longer = (
        tuple(_order_groups(targets, affinity, measures))
        for targets in (route.targets, route.long_prompt_targets)
    )
    return replace(route, targets=first, long_prompt_targets=longer)


def _order_groups(
    targets: Sequence[Target], affinity: bytes, measures: dict[str, Measure]
) -> Iterator[Target]:
    for _, group in groupby(targets, lambda target: (target.model.slug, target.mode)):
        yield from order_targets(tuple(group), affinity, measures)


def order_targets(
    targets: Sequence[Target], affinity: bytes, measures: dict[str, Measure]
) -> Sequence[Target]:
    """Return the places of one model in the order of one call."""
    order = targets[0].model.order
    if len(targets) == 1:
        return targets
    if order == "first":
        return sorted(targets, key=lambda target: target.model.weight == 0)
    measure = measures.get(order)

    def rank(target: Target) -> tuple[bool, float, float]:
        is_last, far = distance(affinity, target.model.place.encode(), target.model.weight)
        return is_last, measure(target) if measure else 0.0, far

    return sorted(targets, key=rank)
