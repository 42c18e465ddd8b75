"""The schema of prices in models.toml, and the ``Prices`` that they are. Source: docs/catalog.md, "Prices"."""

import re
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from addon.settings.validation import Table, table_error
from addon.settings.value_types import Listed, Price
from policies.prices import NORMAL_SERVICE_TIERS, PRICE_FIELDS, Prices, Tier, price_key


def _check_tier_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z_-]{0,31}", name):
        raise ValueError("must be a name in lower case, as answers have it: letters, _ and -")
    return name


def _check_service_tier(name: str) -> str:
    _check_tier_name(name)
    if name in NORMAL_SERVICE_TIERS:
        raise ValueError("is the usual service, whose prices are those of the model: remove this table")
    return name


type AnyServiceTierName = Annotated[str, AfterValidator(_check_tier_name)]
type ServiceTierName = Annotated[str, AfterValidator(_check_service_tier)]


class PricesTable(Table):
    """The prices of a model, a tier or a service tier. Loaded, they are micro-USD per million."""

    input_price_per_m: Price | None = None
    output_price_per_m: Price | None = None
    cached_input_price_per_m: Price | None = None
    cache_write_price_per_m: Price | None = None
    cache_write_5m_price_per_m: Price | None = None
    cache_write_1h_price_per_m: Price | None = None
    reasoning_price_per_m: Price | None = None
    audio_input_price_per_m: Price | None = None
    cached_audio_input_price_per_m: Price | None = None
    audio_output_price_per_m: Price | None = None
    image_input_price_per_m: Price | None = None
    per_call_price_per_m: Price | None = None
    per_search_price_per_m: Price | None = None

    @property
    def stated(self) -> dict[str, int]:
        """The prices that the table has, by their keys."""
        found = {key: getattr(self, key) for key in PricesTable.model_fields}
        return {key: price for key, price in found.items() if price is not None}


class TierTable(PricesTable):
    """``[["slug".tiers]]``: other prices for prompts of more than so many tokens."""

    above_prompt_tokens: Annotated[
        int, Field(ge=1, strict=True, description="the prompt tokens above which these prices hold")
    ]
    whole_call: bool = True

    @model_validator(mode="after")
    def _check_prices(self) -> Self:
        if not self.stated:
            raise table_error(
                "has no price: name those that are other ones above this bound", "above_prompt_tokens"
            )
        return self


class TieredPricesTable(PricesTable):
    """Prices with tiers."""

    tiers: Listed[TierTable] = ()

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        bounds = [tier.above_prompt_tokens for tier in self.tiers]
        for index, (before, bound) in enumerate(pairwise(bounds), start=1):
            if bound <= before:
                reason = f"must be above {before}, the bound of the tier before it: write the tiers with rising bounds"
                raise table_error(reason, "tiers", index, "above_prompt_tokens")
        return self


class ServiceTierTable(TieredPricesTable):
    """``["slug".service_tiers.NAME]``: the prices of calls whose answer names that service tier."""


class ServedPricesTable(TieredPricesTable):
    """Prices with tiers and service tiers."""

    service_tiers: dict[ServiceTierName, ServiceTierTable] = {}


def make_prices(table: ServedPricesTable, around: Mapping[str, int] = MappingProxyType({})) -> Prices:
    """Return prices. Each tier, or service tier, has its own prices, and else those around it."""
    stated = {**around, **table.stated}
    services = {
        name: _make_tiered(stated | inner.stated, inner.tiers, {})
        for name, inner in table.service_tiers.items()
    }
    return _make_tiered(stated, table.tiers, services)


def _make_tiered(
    stated: Mapping[str, int], tiers: tuple[TierTable, ...], services: Mapping[str, Prices]
) -> Prices:
    made, below = [], stated
    for tier in tiers:
        below = {**below, **tier.stated}
        made.append(Tier(tier.above_prompt_tokens, _make_flat(below), tier.whole_call))
    return _make_flat(stated, tuple(made), services)


def _make_flat(
    stated: Mapping[str, int],
    tiers: tuple[Tier, ...] = (),
    services: Mapping[str, Prices] = MappingProxyType({}),
) -> Prices:
    prices = {name: stated[key] for name in PRICE_FIELDS if (key := price_key(name)) in stated}
    prices.setdefault("cached_input_microusd_per_mtok", prices["input_microusd_per_mtok"])
    prices.setdefault("output_microusd_per_mtok", 0)  # of a model that makes embeddings
    return Prices(**prices, tiers=tiers, service_tiers=MappingProxyType(dict(services)))
