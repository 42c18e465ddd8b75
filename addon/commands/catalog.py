"""``tollgate catalog``: the catalog as clients see it, and a check of its prices against published ones."""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from tabulate import tabulate

from addon.calls.public_catalog import CLIENTS_KEYS, format_rows, make_public_rows
from addon.commands.errors import report_errors
from addon.commands.options import conf_option, json_option
from addon.commands.readers import load_served_settings
from policies.model import Model
from policies.money import price_usd_per_mtok

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A price, in USD per million tokens, that differs between the catalog and the published data.

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

    Skip builtin providers, which have no published prices. Rules: docs/catalog.md, "Checking prices".
    """
    disagreements: list[Disagreement] = []
    unknown: list[str] = []
    checked = 0
    for model in sorted(models, key=lambda model: model.slug):
        if model.provider.builtin:
            continue
        if info := _find_published(model):
            checked += 1
            disagreements += _compare_model(model, info, day)
        else:
            unknown.append(model.slug)
    return Comparison(checked, tuple(disagreements), tuple(unknown))


@click.group()
def catalog() -> None:
    """Show the model catalog and check its prices."""


@catalog.command("list")
@conf_option
@json_option
def list_models(conf_file: Path, as_json: bool) -> None:
    """Show the active models with retail prices, as GET /v1/models does."""
    rows = make_public_rows(_load_models(conf_file))
    if as_json:
        click.echo(format_rows(rows))
        return
    shown = [{key: value for key, value in row.items() if key not in CLIENTS_KEYS} for row in rows]
    click.echo(tabulate(shown, headers="keys", disable_numparse=True))


@catalog.command()
@conf_option
@json_option
def check(conf_file: Path, as_json: bool) -> None:
    """Compare wholesale prices with the installed genai-prices. Exit with status 1 when they disagree."""
    comparison = compare_prices(_load_models(conf_file), datetime.now(UTC).date())
    click.echo(_format_comparison_json(comparison) if as_json else _format_comparison(comparison))
    if comparison.disagreements:
        sys.exit(1)


def _load_models(conf_file: Path) -> Iterable[Model]:
    with report_errors():
        return load_served_settings(conf_file).models.values()


def _find_published(model: Model) -> "ModelInfo | None":
    # Imported here because it is large and no other command needs it.
    from genai_prices.data_snapshot import get_snapshot

    for provider in get_snapshot().providers:
        # The published data identify a provider by its URL, so no table of names is needed.
        if re.match(provider.api_pattern, model.provider.base_url):
            found = provider.find_model(model.upstream_model_id)
            if found is not None:
                return found
    return None


def _compare_model(model: Model, info: "ModelInfo", day: date) -> Iterator[Disagreement]:
    published = _find_published_prices(info, day)
    of_catalog = {
        "input": price_usd_per_mtok(model.wholesale.input_microusd_per_mtok),
        "cached input": price_usd_per_mtok(model.wholesale.cached_input_microusd_per_mtok),
        "output": price_usd_per_mtok(model.wholesale.output_microusd_per_mtok),
        "cache write": _find_cache_write_price(model),
    }
    for price, catalog_usd in of_catalog.items():
        if catalog_usd != published[price]:
            yield Disagreement(
                model.slug,
                model.provider.name,
                model.upstream_model_id,
                price,
                catalog_usd,
                published[price],
            )


def _find_cache_write_price(model: Model) -> Decimal | None:
    """Return the price of cache writes, or None when it is the input price."""
    price = model.wholesale.cache_write_microusd_per_mtok
    if price is None or price == model.wholesale.input_microusd_per_mtok:
        return None
    return price_usd_per_mtok(price)


def _find_published_prices(info: "ModelInfo", day: date) -> dict[str, Decimal | None]:
    """Return USD per million tokens: the base tiers of the most expensive hour of ``day``."""
    hours = (info.get_prices(datetime.combine(day, time(hour), UTC)) for hour in range(24))
    names = ("input_mtok", "cache_read_mtok", "output_mtok", "cache_write_mtok")
    by_hour = [[_find_base_price(getattr(hour, name)) for name in names] for hour in hours]
    input_price, cached_price, output_price, write_price = max(
        by_hour, key=lambda prices: prices[0] or Decimal(0)
    )
    return {
        "input": input_price,
        "cached input": input_price if cached_price is None else cached_price,
        "output": output_price,
        "cache write": None if write_price == input_price else write_price,
    }


def _find_base_price(price: Any) -> Decimal | None:
    """Return a flat price, or the base one of tiers by prompt length."""
    base: Decimal | None = getattr(price, "base", price)
    return base


def _format_comparison(comparison: Comparison) -> str:
    parts = []
    if comparison.disagreements:
        headers = ("slug", "provider", "upstream model id", "price", "catalog", "published")
        rows = [tuple(asdict(disagreement).values()) for disagreement in comparison.disagreements]
        parts.append(tabulate(rows, headers=headers, disable_numparse=True, missingval="none"))
    if comparison.unknown:
        parts.append("Not in genai-prices:\n" + "\n".join(f"  {slug}" for slug in comparison.unknown))
    parts.append(
        f"{comparison.checked} models compared with genai-prices {version('genai-prices')}: "
        f"{len(comparison.disagreements)} prices disagree, {len(comparison.unknown)} models unknown."
    )
    return "\n\n".join(parts)


def _format_comparison_json(comparison: Comparison) -> str:
    # Prices are strings here, as they are in models.toml.
    return json.dumps(asdict(comparison) | {"genai_prices": version("genai-prices")}, default=str, indent=2)
