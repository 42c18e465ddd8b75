"""The published prices of the installed ``genai-prices``, and a comparison of the catalog with them.

Rules: docs/catalog.md, "Checking prices".
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from policies.model import Model
from policies.money import price_usd_per_mtok
from policies.prices import Prices

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo


_NAMES: Final = MappingProxyType(
    {
        "input": "input_mtok",
        "cached_input": "cache_read_mtok",
        "output": "output_mtok",
        "cache_write": "cache_write_mtok",
        "cache_write_1h": "cache_write_1h_mtok",
        "audio_input": "input_audio_mtok",
        "cached_audio_input": "cache_audio_read_mtok",
    }
)
"""The kinds of prices that are compared, by the package's names."""
KINDS: Final = tuple(_NAMES)
NEAREST: Final = MappingProxyType(
    {
        "cached_input": "input",
        "cache_write": "input",
        "cache_write_1h": "cache_write",
        "audio_input": "input",
        "cached_audio_input": "cached_input",
    }
)
"""The kind whose price applies where there is none, each after the ones that it needs."""


@dataclass(frozen=True, slots=True)
class PublishedPrices:
    """Prices in USD per million tokens, by kind: those of the base, and of each tier by its bound.

    ``input`` or ``output`` is absent when the package has none. Every other kind has the price that applies.
    """

    base: Mapping[str, Decimal]
    tiers: Mapping[int, Mapping[str, Decimal]]

    def at(self, bound: int) -> Mapping[str, Decimal]:
        """Return the prices of prompts just above ``bound``; of the base for 0."""
        reached = [one for one in sorted(self.tiers) if one <= bound]
        return self.tiers[reached[-1]] if reached else self.base


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A price in USD per million tokens, or a window in tokens, that differs between the catalog and published data.

    ``catalog`` or ``published`` is None when it has no such price. Where a kind has the price of a more common one, as
    cache writes that of the input, it counts as none.
    """

    slug: str
    provider: str
    upstream_model_id: str
    price: str
    catalog: Decimal | None
    published: Decimal | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The number of compared models, the differences, and ``unknown``: the slugs that the published data lack."""

    checked: int
    disagreements: tuple[Disagreement, ...]
    unknown: tuple[str, ...]


def compare_prices(models: Iterable[Model], day: date) -> Comparison:
    """Compare wholesale prices with those of the installed ``genai-prices`` for ``day`` (UTC).

    Skip builtin providers, which have no published prices.
    """
    disagreements: list[Disagreement] = []
    unknown: list[str] = []
    checked = 0
    for model in sorted(models, key=lambda model: model.slug):
        if model.provider.builtin:
            continue
        if published := find_published(model.provider.base_url, model.upstream_model_id, day):
            checked += 1
            disagreements += _compare_model(model, published)
            disagreements += _compare_window(model)
        else:
            unknown.append(model.slug)
    return Comparison(checked, tuple(disagreements), tuple(unknown))


def find_published(base_url: str, upstream_model_id: str, day: date) -> PublishedPrices | None:
    """Return the prices of a model on ``day`` (UTC), of its most expensive hour."""
    info = _find_model(base_url, upstream_model_id)
    if info is None:
        return None
    hours = [info.get_prices(datetime.combine(day, time(hour), UTC)) for hour in range(24)]
    dearest = max(hours, key=lambda prices: _find_price(prices.input_mtok, 0) or Decimal(0))
    stated = [getattr(dearest, name) for name in _NAMES.values()]
    bounds = {tier.start for price in stated for tier in getattr(price, "tiers", ())}
    return PublishedPrices(
        _price_all(dearest, 0), {bound: _price_all(dearest, bound) for bound in sorted(bounds)}
    )


def _price_all(prices: Any, bound: int) -> Mapping[str, Decimal]:
    """Return the prices of prompts just above ``bound`` that the package has, and those that follow from them."""
    named = {kind: _find_price(getattr(prices, name), bound) for kind, name in _NAMES.items()}
    found = {kind: price for kind, price in named.items() if price is not None}
    for kind, nearest in NEAREST.items():
        if kind not in found and nearest in found:
            found[kind] = found[nearest]
    return found


def _find_price(price: Any, bound: int) -> Decimal | None:
    """Return a flat price, or the one of prompts just above ``bound``."""
    reached = [tier.price for tier in getattr(price, "tiers", ()) if tier.start <= bound]
    found: Decimal | None = reached[-1] if reached else getattr(price, "base", price)
    return found


def _find_model(base_url: str, upstream_model_id: str) -> "ModelInfo | None":
    # Imported here because it is large and no other command needs it.
    from genai_prices.data_snapshot import get_snapshot

    for provider in get_snapshot().providers:
        # The published data identify a provider by its URL, so no table of names is needed.
        if re.match(provider.api_pattern, base_url):
            found = provider.find_model(upstream_model_id)
            if found is not None:
                return found
    return None


def find_published_window(base_url: str, upstream_model_id: str) -> int | None:
    """Return the context window of a model, in tokens."""
    info = _find_model(base_url, upstream_model_id)
    return info.context_window if info else None


def find_wanted_window(model: Model) -> int | None:
    """Return the published window of a model whose own is wider, or lacks where the family needs it; else None.

    The package rounds some windows down, by less than a twentieth. A narrower window refuses no call.
    """
    published = find_published_window(model.provider.base_url, model.upstream_model_id)
    window = model.context_window
    if published is None or (window is None and not model.family.cap_within_window):
        return None
    return published if window is None or 20 * window > 21 * published else None


def _compare_window(model: Model) -> Iterator[Disagreement]:
    if (published := find_wanted_window(model)) is not None:
        stated = None if model.context_window is None else Decimal(model.context_window)
        named = (model.slug, model.provider.name, model.upstream_model_id, "context window")
        yield Disagreement(*named, stated, Decimal(published))


def _compare_model(model: Model, published: PublishedPrices) -> Iterator[Disagreement]:
    bounds = {0, *published.tiers, *(tier.above_prompt_tokens for tier in model.wholesale.tiers)}
    for bound in sorted(bounds):
        stated, wanted = price_catalog(model.wholesale, bound), published.at(bound)
        for kind, price in stated.items():
            # The price of the nearest kind counts as none.
            nearest = None if kind == "cached_input" else NEAREST.get(kind)
            catalog_usd = None if nearest and price == stated[nearest] else price
            published_usd = wanted.get(kind)
            if nearest and published_usd == wanted.get(nearest):
                published_usd = None
            if catalog_usd != published_usd:
                name = kind.replace("_", " ") + (f" above {bound}" if bound else "")
                yield Disagreement(
                    model.slug,
                    model.provider.name,
                    model.upstream_model_id,
                    name,
                    catalog_usd,
                    published_usd,
                )


def price_catalog(prices: Prices, bound: int) -> Mapping[str, Decimal]:
    """Return the catalog's prices of prompts just above ``bound`` by kind, in USD per million tokens."""
    level = prices.levels(bound + 1)[-1]
    return {kind: price_usd_per_mtok(level.price_of(kind)) for kind in _NAMES}
