"""The published prices of the installed ``genai-prices``, and a comparison of the catalog with them.

Rules: docs/catalog.md, "Checking prices".
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from policies.model import Model
from policies.money import price_usd_per_mtok

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo


@dataclass(frozen=True, slots=True)
class PublishedPrices:
    """Prices in USD per million tokens. ``input`` or ``output`` is None when the package has none.

    ``cached_input`` is the input price when the package has none; ``cache_write`` is None when it has none, or the
    input price.
    """

    input: Decimal | None
    cached_input: Decimal | None
    output: Decimal | None
    cache_write: Decimal | None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A price in USD per million tokens, or a window in tokens, that differs between the catalog and published data.

    ``catalog`` or ``published`` is None when it has no such price. A price of cache writes counts as none when it is
    the input price.
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
    """Return the prices of a model on ``day`` (UTC): the base tiers of its most expensive hour."""
    info = _find_model(base_url, upstream_model_id)
    if info is None:
        return None
    hours = (info.get_prices(datetime.combine(day, time(hour), UTC)) for hour in range(24))
    names = ("input_mtok", "cache_read_mtok", "output_mtok", "cache_write_mtok")
    by_hour = [[_find_base_price(getattr(hour, name)) for name in names] for hour in hours]
    input_price, cached_price, output_price, write_price = max(
        by_hour, key=lambda prices: prices[0] or Decimal(0)
    )
    return PublishedPrices(
        input_price,
        input_price if cached_price is None else cached_price,
        output_price,
        None if write_price == input_price else write_price,
    )


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


def _compare_window(model: Model) -> Iterator[Disagreement]:
    """Yield the window of a model if it is wider than the published one, or lacks where the family needs it.

    The package rounds some windows down, by less than a twentieth. A narrower window refuses no call.
    """
    published = find_published_window(model.provider.base_url, model.upstream_model_id)
    if published is None:
        return
    window = model.context_window
    if model.family.cap_within_window if window is None else 20 * window > 21 * published:
        stated = None if window is None else Decimal(window)
        named = (model.slug, model.provider.name, model.upstream_model_id, "context window")
        yield Disagreement(*named, stated, Decimal(published))


def _compare_model(model: Model, published: PublishedPrices) -> Iterator[Disagreement]:
    prices = {
        "input": (price_usd_per_mtok(model.wholesale.input_microusd_per_mtok), published.input),
        "cached input": (
            price_usd_per_mtok(model.wholesale.cached_input_microusd_per_mtok),
            published.cached_input,
        ),
        "output": (price_usd_per_mtok(model.wholesale.output_microusd_per_mtok), published.output),
        "cache write": (_find_cache_write_price(model), published.cache_write),
    }
    for price, (catalog_usd, published_usd) in prices.items():
        if catalog_usd != published_usd:
            yield Disagreement(
                model.slug,
                model.provider.name,
                model.upstream_model_id,
                price,
                catalog_usd,
                published_usd,
            )


def _find_cache_write_price(model: Model) -> Decimal | None:
    """Return the price of cache writes, or None when it is the input price."""
    price = model.wholesale.cache_write_microusd_per_mtok
    if price is None or price == model.wholesale.input_microusd_per_mtok:
        return None
    return price_usd_per_mtok(price)


def _find_base_price(price: Any) -> Decimal | None:
    """Return a flat price, or the base one of tiers by prompt length."""
    base: Decimal | None = getattr(price, "base", price)
    return base
