"""``tollgate catalog add``: one more model, as a whole table of models.toml. Source: docs/catalog.md."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from pydantic import TypeAdapter, ValidationError

from addon.commands.catalog_edits import add_table, format_model_table
from addon.commands.catalog_files import edited_models, find_edited_folder
from addon.commands.catalog_update import format_price
from addon.commands.errors import report_errors
from addon.commands.options import conf_option
from addon.commands.published_prices import NEAREST, find_published, find_published_window
from addon.commands.readers import load_served_settings
from addon.settings.errors import shorten_name, suggest_name
from addon.settings.settings import Settings
from addon.settings.value_types import SLUG_IS, Slug
from addon.text.masking import mask_credentials
from policies.allowed_models import fold_slug
from policies.provider import Provider


@click.command()
@click.argument("provider")
@click.argument("model")
@click.option("--slug", help="The name that clients use.  [default: MODEL in lower case]")
@click.option(
    "--family", help="What it accepts, a table of families.toml.  [default: the provider's custom_family]"
)
@click.option("--input-price", metavar="USD", help="Wholesale, per million tokens.")
@click.option("--output-price", metavar="USD", help="The same for output.")
@click.option("--cached-input-price", metavar="USD", help="The same for cached input.")
@click.option("--cache-write-price", metavar="USD", help="The same for input that is written into a cache.")
@click.option("--max-completion-tokens", type=click.IntRange(1), metavar="N", help="The largest completion.")
@click.option("--context-window", type=click.IntRange(1), metavar="N", help="Prompt and completion together.")
@click.option("--byok-only", is_flag=True, help="Serve it with customers' own keys only.")
@conf_option
def add(
    provider: str,
    model: str,
    slug: str | None,
    family: str | None,
    max_completion_tokens: int | None,
    context_window: int | None,
    byok_only: bool,
    conf_file: Path,
    **given_prices: str | None,
) -> None:
    """Add the MODEL of PROVIDER, by its vendor's name: to the overlay if there is one, else to the catalog.

    Prices and a window that the installed genai-prices has need no option.
    """
    if mask_credentials(f"{model} {slug or ''}") != f"{model} {slug or ''}":
        raise click.ClickException("a model can't have a name that looks like a credential")
    with report_errors():
        settings = load_served_settings(conf_file)
    found = _find_provider(settings, provider)
    slug = slug or model.lower()
    _require_new(settings, slug)
    published = _published_prices(found, model)
    prices = published | {f"{name}_per_m": price for name, price in given_prices.items() if price is not None}
    if family is None and found.custom_family.name in settings.families:
        family = found.custom_family.name
    _require_given(published, prices, max_completion_tokens, family)
    window = context_window or _published_window(found, model, max_completion_tokens or 0)
    values: dict[str, Any] = {
        **{"provider": found.name, "upstream_model_id": model, "family": family},
        **prices,
        **{"max_completion_tokens": max_completion_tokens},
        **({"context_window": window} if window else {}),
        **{"byok_only": byok_only, "active": True},
    }
    is_published = published and not any(given_prices.values())
    table = format_model_table(slug, values, _name_source() if is_published else "")
    path = _write(settings, conf_file, slug, table)
    click.echo(f"{table}\nadded to {path}")


def _name_source() -> str:
    """Return the comment of prices that genai-prices has."""
    return f"prices: genai-prices {version('genai-prices')}, {datetime.now(UTC).date()}"


def _require_given(
    published: Mapping[str, object],
    prices: Mapping[str, object],
    max_completion_tokens: int | None,
    family: str | None,
) -> None:
    """Raise ``UsageError`` that names each value that neither the options nor genai-prices have."""
    needed = {
        "--input-price": prices.get("input_price_per_m"),
        "--output-price": prices.get("output_price_per_m"),
        "--max-completion-tokens": max_completion_tokens,
        "--family": family,
    }
    if missing := [option for option, value in needed.items() if value is None]:
        known = "has no prices of it" if not published else "does not have all of that"
        raise click.UsageError(
            f"{', '.join(missing)} must be given: genai-prices {version('genai-prices')} {known}"
        )


def _find_provider(settings: Settings, name: str) -> Provider:
    found = settings.providers.get(name.upper())
    if found is None:
        raise click.ClickException(
            f'unknown provider "{shorten_name(name)}"{suggest_name(name, settings.providers)}'
        )
    return found


def _require_new(settings: Settings, slug: str) -> None:
    try:
        TypeAdapter(Slug).validate_python(slug)
    except ValidationError:
        raise click.ClickException(f"--slug {slug} must be {SLUG_IS}") from None
    by_folded = {fold_slug(known): known for known in settings.models}
    if known := by_folded.get(fold_slug(slug)):
        raise click.ClickException(f'the model "{known}" exists already; choose another --slug')


def _published_prices(provider: Provider, model: str) -> dict[str, Any]:
    """Return the published prices of today by their keys in models.toml, without those that apply anyway."""
    if provider.builtin:
        return {}
    published = find_published(provider.base_url, model, datetime.now(UTC).date())
    if published is None:
        return {}
    prices: dict[str, Any] = _name_prices(published.base, {})
    below: Mapping[str, Decimal] = published.base
    tiers = []
    for bound, level in published.tiers.items():
        changed = {kind: price for kind, price in level.items() if price != below.get(kind)}
        tiers.append({"above_prompt_tokens": bound, **_name_prices(changed, prices)})
        below = level
    return prices | ({"tiers": tiers} if tiers else {})


def _name_prices(prices: Mapping[str, Decimal], named: Collection[str]) -> dict[str, str]:
    """Return published prices by their keys in models.toml.

    One that the nearest kind has, too, needs no line, unless its key is among those ``named`` for shorter prompts.
    """
    by_key = {f"{kind}_price_per_m": (kind, price) for kind, price in prices.items()}
    return {
        key: format_price(price)
        for key, (kind, price) in by_key.items()
        if key in named or price != prices.get(NEAREST.get(kind, ""))
    }


def _published_window(provider: Provider, model: str, least_tokens: int) -> int | None:
    """Return the published window of a model, None where there is none, or none that holds the completion."""
    published = None if provider.builtin else find_published_window(provider.base_url, model)
    return published if published and published >= least_tokens else None


def _write(settings: Settings, conf_file: Path, slug: str, table: str) -> Path:
    with edited_models(conf_file, find_edited_folder(settings.conf.paths, conf_file)) as file:
        file.write(add_table(file.text, table), "catalog add", f"Add the model {slug} to the catalog")
        return file.path
