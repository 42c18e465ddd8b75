"""``tollgate ledger reconcile``: compares a vendor's own export with the ledger. Source: docs/commands.md."""

import heapq
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Final

import click

from addon.commands.errors import report_errors
from addon.commands.ledger_reconcile_archives import open_with_archives, require_archives
from addon.commands.ledger_reconcile_files import read_exports, report_export_errors
from addon.commands.ledger_reconcile_report import format_comparison
from addon.commands.options import conf_option, listing_options
from addon.commands.output import Form
from addon.commands.readers import load_served_settings
from addon.commands.usage_options import check_names
from addon.reconcile.comparison import MAX_CALL_MS, Catalog, Comparison, compare
from addon.reconcile.export_line import KINDS, Export, Tokens
from addon.reconcile.ledger_call import FailedAttempt, LedgerCall, ModelPrices
from addon.reconcile.plan import Plan, make_plan, parse_month
from addon.settings.settings import Settings
from addon.store.backends import find_ledger
from addon.store.money.ledger import Ledger
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.price_sets import read_price_sets
from addon.store.money.reports.provider_calls import (
    select_failed_attempts,
    select_fallbacks,
    select_provider_calls,
)
from policies.model import Model
from policies.model_names import ModelNames
from policies.money import parse_usd_nanousd
from policies.price_set import PriceSet
from policies.prices import Prices


def _parse_month(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    try:
        return text and parse_month(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a month such as 2026-10", context, option) from None


def _parse_tolerance(context: click.Context, option: click.Parameter, text: str) -> int:
    try:
        return parse_usd_nanousd(text)
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from None


def _parse_keys(
    context: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> dict[str, int | None]:
    """Return the number of each key, None for one without. A name may have "=" in it."""
    keys: dict[str, int | None] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        is_numbered = equals and re.fullmatch("[1-9][0-9]{0,3}", number)
        keys[name if is_numbered else text] = int(number) if is_numbered else None
    if not all(keys):
        raise click.BadParameter("must be NAME or NAME=NUMBER", context, option)
    return keys


def _parse_aliases(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if any(not name or not ours for name, _, ours in pairs):
        raise click.BadParameter("must be VENDORS_NAME=UPSTREAM_MODEL_ID", context, option)
    return {name.strip(): ours.strip() for name, _, ours in pairs}


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--provider", metavar="NAME", required=True, help="The provider of the ledger's calls.")
@click.option(
    "--month",
    metavar="MONTH",
    callback=_parse_month,
    help="Compare this whole month: 2026-10.  [default: the days of FILE]",
)
@click.option(
    "--columns",
    "mapping_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A TOML file that says which column is what, for a format that is not known.",
)
@click.option(
    "--key",
    "keys",
    metavar="NAME[=NUMBER]",
    multiple=True,
    callback=_parse_keys,
    help="A key of the gateway, as the export names it; with its place in platform_keys, it is compared by itself. "
    "Lines of other keys did not pass the gateway. Repeatable.",
)
@click.option(
    "--alias",
    "aliases",
    metavar="NAME=ID",
    multiple=True,
    callback=_parse_aliases,
    help="Which upstream_model_id the vendor means by a name. Repeatable.",
)
@click.option(
    "--tolerance",
    "tolerance_nanousd",
    metavar="USD",
    default="0.01",
    show_default=True,
    callback=_parse_tolerance,
    help="The largest sum of differences, without rounding, for status 0.",
)
@click.option(
    "--ledger",
    "ledger_files",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also read this archive of the ledger. Repeatable.",
)
@listing_options
@conf_option
def reconcile(
    files: tuple[Path, ...],
    provider: str,
    month: str | None,
    mapping_file: Path | None,
    keys: dict[str, int | None],
    aliases: dict[str, str],
    tolerance_nanousd: int,
    ledger_files: tuple[Path, ...],
    form: Form,
    conf_file: Path,
) -> None:
    """Compare a provider's own export of usage or costs with the ledger, and name the cause of each difference.

    Exit with status 1 if the differences are above the tolerance.
    """
    with report_errors():
        exports = read_exports(files, mapping_file)
        with report_export_errors(files[0] if len(files) == 1 else "the files"):
            plan = make_plan(exports, month, keys)
        settings = load_served_settings(conf_file)
        comparison = _compare(conf_file, settings, provider, exports, plan, aliases, ledger_files)
    shown = format_comparison(comparison, plan, provider, tolerance_nanousd, form)
    click.echo(shown, nl=form != "csv")
    is_valued = all(group.is_valued for group in comparison.groups)
    if comparison.unsettled_nanousd > tolerance_nanousd or not is_valued:
        sys.exit(1)


def _compare(
    conf_file: Path,
    settings: Settings,
    provider: str,
    exports: list[Export],
    plan: Plan,
    aliases: dict[str, str],
    ledger_files: tuple[Path, ...],
) -> Comparison:
    here = [
        one for model in settings.models.values() for one in model.places if one.provider.name == provider
    ]
    places = {one.upstream_model_id: one.slug for one in here}
    priced = [*settings.models.values(), *reversed(here)]  # The first place at this provider counts.
    catalog = Catalog({one.slug: _prices_of_model(one) for one in priced}, places)
    place = find_ledger(settings.conf)
    if not place.exists():
        click.echo(f"There is no ledger yet in {place.name}: nothing was recorded.", err=True)
    with open_with_archives(place, ledger_files) as (ledger, *archives):
        check_names(conf_file, settings.conf, ledger, Filter(provider=provider))
        since = plan.since - timedelta(milliseconds=MAX_CALL_MS)
        require_archives(ledger, archives, since, plan.since, plan.until)
        files = [*archives, ledger]
        rows = heapq.merge(
            *(select_provider_calls(one, provider, since, plan.until, LedgerCall._fields) for one in files),
            key=_BEGIN,
        )
        kept = {one.hash: one.prices for file in files for one in read_price_sets(file)}
        sets = {name: _prices_of(one) for name, one in kept.items() if one is not None}
        calls, catalog = map(LedgerCall._make, rows), replace(catalog, sets=sets)
        attempts = chain(*(_find_attempts(one, settings, provider, plan) for one in files))
        with report_export_errors("the files"):
            return compare(exports, calls, plan, catalog, aliases, attempts)


_BEGIN: Final = itemgetter(LedgerCall._fields.index("created_at"))


def _find_attempts(ledger: Ledger, settings: Settings, provider: str, plan: Plan) -> Iterator[FailedAttempt]:
    """Yield the failed attempts of a provider's models that another attempt followed."""
    for created_at, place, platform_key in select_failed_attempts(ledger, provider, plan.since, plan.until):
        yield FailedAttempt(created_at, place.removeprefix(f"{provider}/"), platform_key)
    # Rows of earlier versions say only that a fallback followed.
    names = ModelNames(settings.models)
    for created_at, requested, served in select_fallbacks(ledger, plan.since, plan.until):
        model = names.find(requested)
        asked = model.place_at(provider) if model else None
        if asked is not None and asked.slug != served:
            yield FailedAttempt(created_at, asked.upstream_model_id)


def _prices_of_model(model: Model) -> ModelPrices:
    return _prices_of(model.price_set, _timed_prices(model))


def _prices_of(price_set: PriceSet, others: Iterable[Prices] = ()) -> ModelPrices:
    prices = price_set.wholesale
    return ModelPrices(
        _base_of(prices),
        price_set.reasoning_beside,
        [_base_of(one) for one in (*_inner_prices(prices), *others)],
        charges_tools=bool(prices.per_search_microusd_per_m or prices.per_call_microusd_per_m),
        search_picousd=prices.per_search_microusd_per_m,
        long_prompt_tokens=prices.tiers[0].above_prompt_tokens if prices.tiers else None,
    )


def _timed_prices(model: Model) -> Iterator[Prices]:
    for one in model.timed:
        yield one.wholesale
        yield from _inner_prices(one.wholesale)


def _base_of(prices: Prices) -> Tokens:
    return Tokens(*(prices.price_of(kind) for kind in KINDS))


def _inner_prices(prices: Prices) -> Iterator[Prices]:
    """Yield the prices of each tier, and of each service tier with its tiers."""
    for inner in (*(tier.prices for tier in prices.tiers), *prices.service_tiers.values()):
        yield inner
        yield from _inner_prices(inner)
