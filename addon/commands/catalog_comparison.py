"""A comparison of the catalog's prices and windows with those of the installed ``genai-prices``.

Rules: docs/catalog.md, "Checking prices".
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from addon.commands.published_prices import NEAREST, find_wanted_window, price_catalog
from addon.commands.published_times import Period, find_periods
from policies.model import Model


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
        if periods := find_periods(model, day):
            checked += 1
            disagreements += [found for period in periods for found in _compare_period(model, period)]
            disagreements += _compare_window(model)
        else:
            unknown.append(model.slug)
    return Comparison(checked, tuple(disagreements), tuple(unknown))


def _compare_window(model: Model) -> Iterator[Disagreement]:
    if (published := find_wanted_window(model)) is not None:
        stated = None if model.context_window is None else Decimal(model.context_window)
        named = (model.slug, model.provider.name, model.upstream_model_id, "context window")
        yield Disagreement(*named, stated, Decimal(published))


def _compare_period(model: Model, period: Period) -> Iterator[Disagreement]:
    bounds = {0, *period.published.tiers, *(tier.above_prompt_tokens for tier in period.prices.tiers)}
    for bound in sorted(bounds):
        stated, wanted = price_catalog(period.prices, bound), period.published.at(bound)
        for kind, price in stated.items():
            if kind == "output" and model.serves == "embeddings":
                continue  # It has none, whatever the package says.
            # The price of the nearest kind counts as none.
            nearest = None if kind == "cached_input" else NEAREST.get(kind)
            catalog_usd = None if nearest and price == stated[nearest] else price
            published_usd = wanted.get(kind)
            if nearest and published_usd == wanted.get(nearest):
                published_usd = None
            if catalog_usd != published_usd:
                name = kind.replace("_", " ") + (f" above {bound}" if bound else "")
                name += f" {period.place}" if period.place else ""
                yield Disagreement(
                    model.slug,
                    model.provider.name,
                    model.upstream_model_id,
                    name,
                    catalog_usd,
                    published_usd,
                )
