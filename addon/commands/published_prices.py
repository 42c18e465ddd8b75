"""The published prices and context windows of the installed ``genai-prices``.

Rules: docs/catalog.md, "Checking prices".
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
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


def find_published(base_url: str, upstream_model_id: str, day: date) -> PublishedPrices | None:
    """Return the prices of a model on ``day`` (UTC), of its most expensive hour."""
    info = find_model_info(base_url, upstream_model_id)
    return None if info is None else find_dearest_published(info, moments_of(day))


def moments_of(day: date) -> list[datetime]:
    """Return the beginning of each half hour of a day (UTC)."""
    midnight = datetime.combine(day, time(), UTC)
    return [midnight + timedelta(minutes=30) * step for step in range(48)]


def find_dearest_published(info: "ModelInfo", moments: Iterable[datetime]) -> PublishedPrices:
    """Return the published prices of the most expensive of some moments."""
    found = [info.get_prices(moment) for moment in moments]
    dearest = max(found, key=lambda prices: _find_price(prices.input_mtok, 0) or Decimal(0))
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


def find_model_info(base_url: str, upstream_model_id: str) -> "ModelInfo | None":
    """Return what the package has of a model."""
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
    info = find_model_info(base_url, upstream_model_id)
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


def price_catalog(prices: Prices, bound: int) -> Mapping[str, Decimal]:
    """Return the catalog's prices of prompts just above ``bound`` by kind, in USD per million tokens."""
    level = prices.levels(bound + 1)[-1]
    return {kind: price_usd_per_mtok(level.price_of(kind)) for kind in _NAMES}
