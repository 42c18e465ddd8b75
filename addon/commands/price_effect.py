"""``measure_effect``: what calls of the ledger would have cost at other prices. Pure. Source: docs/catalog.md."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from policies.model import Model
from policies.money import compute_call_costs_nanousd
from policies.prices import Prices
from policies.usage import Usage

_FACTS: Final = ("model_slug", "provider", "upstream_model_id", "mode", "usage_source", "created_at")
_RECORDED: Final = ("wholesale_nanousd", "retail_nanousd")
COLUMNS: Final = (*_FACTS, *_RECORDED, *Usage.__struct_fields__)
"""The columns of the ledger that are read."""

COSTS: Final = ("wholesale", "retail")

_RARE_COUNTS: Final = MappingProxyType(
    {
        "audio_input_tokens": ("audio_input", "input"),
        "cached_audio_tokens": ("cached_audio_input", "cached_input"),
        "image_input_tokens": ("image_input", "input"),
        "cache_write_1h_tokens": ("cache_write_1h", "cache_write"),
        "audio_output_tokens": ("audio_output", "output"),
    }
)
"""The counts that many rows do not have, each with its kind of price and the one that they are priced as."""


@dataclass(slots=True)
class CostSums:
    """Sums of one cost: as the ledger has it, at the prices before the change, and at those after it."""

    recorded_nanousd: int = 0
    before_nanousd: int = 0
    after_nanousd: int = 0

    def add(self, recorded_nanousd: int, before_nanousd: int, after_nanousd: int) -> None:
        """Count one call."""
        self.recorded_nanousd += recorded_nanousd
        self.before_nanousd += before_nanousd
        self.after_nanousd += after_nanousd


@dataclass(slots=True)
class CallSums:
    """The calls of one model and mode, with the sums of each of ``COSTS``."""

    calls: int = 0
    costs: tuple[CostSums, CostSums] = field(default_factory=lambda: (CostSums(), CostSums()))


@dataclass(slots=True)
class Effect:
    """The sums by model and mode; ``unknown``: why some calls would maybe have cost something else, and how many."""

    sums: dict[tuple[str, str], CallSums] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)


def find_changed(before: Mapping[str, Model], after: Mapping[str, Model]) -> list[str]:
    """Return the slugs of ``before`` whose calls cost something else in ``after``, or have no price there."""
    return sorted(
        slug
        for slug, model in before.items()
        if slug not in after or _pricing_of(model) != _pricing_of(after[slug])
    )


def measure_effect(
    rows: Iterable[Sequence[Any]], before: Mapping[str, Model], after: Mapping[str, Model]
) -> Effect:
    """Return what calls cost at the prices of two sets of models. ``rows`` have the values of ``COLUMNS``."""
    effect = Effect()
    slugs = before.keys() & after.keys()
    needed = {slug: _find_needed_counts(before[slug], after[slug]) for slug in slugs}
    for row in rows:
        slug, provider, upstream_model_id, mode, source, created_at = row[: len(_FACTS)]
        if slug not in after:
            effect.unknown[f"left out: {slug} has no price then"] += 1
            continue
        old = before[slug].place_at(provider, upstream_model_id)
        new = after[slug].place_at(provider, upstream_model_id)
        if old is None or new is None:
            effect.unknown[f"left out: {slug} was another model of a provider then"] += 1
            continue
        sums = effect.sums.setdefault((slug, mode), CallSums())
        sums.calls += 1
        if mode != "payg":
            continue
        usage = Usage(*row[len(_FACTS) + len(_RECORDED) :])
        effect.unknown.update(_find_unknown(usage, source, needed[slug], (old, new)))
        recorded = row[len(_FACTS) : len(_FACTS) + len(_RECORDED)]
        moment = datetime.fromisoformat(created_at)
        costs = (compute_call_costs_nanousd(usage, model.at(moment).price_set) for model in (old, new))
        for cost, *values in zip(sums.costs, recorded, *costs, strict=True):
            cost.add(*values)
    return effect


def _pricing_of(model: Model) -> tuple[object, ...]:
    return tuple(
        (
            place.place,
            place.wholesale,
            place.retail,
            place.timed,
            place.cost,
            place.family.reasoning_beside_completion,
        )
        for place in model.places
    )


def _find_unknown(
    usage: Usage, source: str, needed: Mapping[str, str], models: Sequence[Model]
) -> Iterator[str]:
    """Yield what is not known of a call that would change its cost."""
    if source == "none":  # It used nothing.
        return
    if source == "estimated":
        yield "the counts are an estimate of the gateway"
    is_reported = any(model.cost == "reported" for model in models)
    if is_reported and usage.reported_nanousd is None:
        yield "no reported cost in the row: computed from its counts"
    for name, priced_as in needed.items():
        if getattr(usage, name) is None:
            yield f"no {name} in the row: {priced_as}"


def _find_needed_counts(*models: Model) -> dict[str, str]:
    """Return the counts that many rows do not have, but these prices need, with what is taken in their place."""
    priced = [
        prices
        for model in models
        for place in model.places
        for prices in (place.wholesale, *(one.wholesale for one in place.timed))
    ]
    levels = [level for prices in priced for level in _all_levels(prices)]
    needed = {
        name: f"priced as {nearest.replace('_', ' ')}"
        for name, (kind, nearest) in _RARE_COUNTS.items()
        if any(level.price_of(kind) != level.price_of(nearest) for level in levels)
    }
    if any(level.price_of("per_search") for level in levels):
        needed["searches"] = "priced as if there were none"
    if any(prices.service_tiers for prices in priced):
        needed["service_tier"] = "priced as the usual service"
    return needed


def _all_levels(prices: Prices) -> Iterator[Prices]:
    yield prices
    for inner in (*(tier.prices for tier in prices.tiers), *prices.service_tiers.values()):
        yield from _all_levels(inner)
