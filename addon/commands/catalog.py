"""``tollgate catalog``: the catalog as clients see it, its models and prices. Source: docs/catalog.md."""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click

from addon.calls.public_catalog import CLIENTS_KEYS, format_rows, make_public_rows
from addon.commands.catalog_add import add
from addon.commands.catalog_comparison import Comparison, Disagreement, compare_prices
from addon.commands.catalog_price import price
from addon.commands.catalog_probe import probe_models
from addon.commands.catalog_update import update
from addon.commands.errors import report_errors
from addon.commands.options import conf_option, listing_options
from addon.commands.output import Form, echo_table, format_table
from addon.commands.readers import load_served_settings
from addon.text.table import Table
from addon.text.table_formats import format_csv
from policies.model import Model

_OPTIONAL: Final = ("upstream_model_id",)
_HEADERS: Final = MappingProxyType(
    {
        "modelSlug": "slug",
        "upstreamModelId": "upstream_model_id",
        "inputPricePerMRetail": "retail_input",
        "outputPricePerMRetail": "retail_output",
        "isByokOnly": "byok_only",
    }
)
"""The columns of the table for people, by the keys of the contract."""


@click.group()
def catalog() -> None:
    """Show the model catalog, add and probe models, and check, change and update prices."""


catalog.add_command(update)
catalog.add_command(add)
catalog.add_command(probe_models)
catalog.add_command(price)


@catalog.command("list")
@conf_option
@listing_options
def list_models(conf_file: Path, form: Form) -> None:
    """Show the active models with retail prices, as GET /v1/models does."""
    rows = make_public_rows(_load_models(conf_file), datetime.now(UTC))
    if form == "json":
        click.echo(format_rows(rows))
        return
    shown = [{key: _show(value) for key, value in row.items() if key not in CLIENTS_KEYS} for row in rows]
    columns = list(shown[0]) if shown else []
    if form != "csv":
        columns = [_HEADERS.get(column, column) for column in columns]
    echo_table(Table(columns, [list(row.values()) for row in shown]), form, "no active models", _OPTIONAL)


@catalog.command()
@conf_option
@listing_options
def check(conf_file: Path, form: Form) -> None:
    """Compare wholesale prices and windows with the installed genai-prices. Exit with status 1 when they disagree."""
    comparison = compare_prices(_load_models(conf_file), datetime.now(UTC).date())
    if form == "json":
        click.echo(_format_comparison_json(comparison))
    elif form == "csv":
        click.echo(format_csv(_make_table(comparison)), nl=False)
    else:
        click.echo(_format_comparison(comparison, form))
    if comparison.disagreements:
        sys.exit(1)


def _show(value: Any) -> Any:
    """Return a price as plain decimal text. Other values stay."""
    return f"{value:f}" if isinstance(value, Decimal) else value


def _load_models(conf_file: Path) -> Iterable[Model]:
    with report_errors():
        return load_served_settings(conf_file).models.values()


def _make_table(comparison: Comparison) -> Table:
    columns = [field.name for field in fields(Disagreement)]
    return Table(columns, [tuple(asdict(one).values()) for one in comparison.disagreements])


def _format_comparison(comparison: Comparison, form: Form) -> str:
    parts = []
    if comparison.disagreements:
        parts.append(format_table(_make_table(comparison), form, _OPTIONAL, missing="none"))
    if comparison.unknown:
        parts.append("Not in genai-prices:\n" + "\n".join(f"  {slug}" for slug in comparison.unknown))
    parts.append(
        f"{comparison.checked} models compared with genai-prices {version('genai-prices')}: "
        f"{len(comparison.disagreements)} figures disagree, {len(comparison.unknown)} models unknown."
    )
    return "\n\n".join(parts)


def _format_comparison_json(comparison: Comparison) -> str:
    # Prices are strings here, as they are in models.toml.
    return json.dumps(asdict(comparison) | {"genai_prices": version("genai-prices")}, default=str, indent=2)
