"""``tollgate catalog price``: change prices of a model, and show what that changes. Source: docs/catalog.md."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from addon.commands.catalog_edits import PRICE_KEYS, add_table, copy_table, set_prices
from addon.commands.catalog_files import MODELS, ModelsFile, edited_models, find_edited_folder
from addon.commands.catalog_price_output import Report, format_report
from addon.commands.errors import report_errors
from addon.commands.options import conf_option, listing_options
from addon.commands.output import Form
from addon.commands.price_effect import COLUMNS, Effect, find_changed, measure_effect
from addon.commands.readers import load_served_settings, note_missing, open_ledger, read_regular_file
from addon.commands.usage_options import parse_moment_option
from addon.settings.errors import SettingsError, shorten_name, suggest_name
from addon.settings.file_content import MAX_FILE_BYTES, decode_text, describe_error
from addon.settings.settings import Settings, SettingsFiles
from addon.settings.sources import Sources
from addon.store.backends import find_ledger
from addon.store.money.reports.archived_calls import find_missing
from addon.store.money.reports.model_calls import select_model_calls
from addon.text.masking import mask_credentials
from addon.text.toml import load_toml
from policies.model import Model
from policies.model_names import ModelNames
from policies.money import parse_price_microusd_per_mtok, price_usd_per_mtok
from policies.prices import Prices

_SUFFIX: Final = "_price_per_m"
_HIDDEN: Final = {"active": False}


def _parse_price(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Return a price as models.toml has it."""
    try:
        return None if text is None else f"{price_usd_per_mtok(parse_price_microusd_per_mtok(text)):f}"
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from None


def _price_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each price of models.toml."""
    for key in reversed(PRICE_KEYS):
        name = f"--{key.removesuffix(_SUFFIX).replace('_', '-')}"
        option = click.option(name, key, metavar="USD", callback=_parse_price, help=f"The {key}.")
        command = option(command)
    return command


@click.command()
@click.argument("slug", required=False)
@_price_options
@click.option(
    "--above", type=click.IntRange(1), metavar="TOKENS", help="Change the tier of prompts above this bound."
)
@click.option("--add-tier", is_flag=True, help="Add the tier of --above.")
@click.option(
    "--from",
    "from_date",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DAY",
    help="Change the prices that hold from this day of UTC on.",
)
@click.option("--add-day", is_flag=True, help="Add the prices from the day of --from on.")
@click.option(
    "--what-if",
    "tried_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write nothing: compare with this models.toml in the place of the one that is edited.",
)
@click.option(
    "--since",
    default="7d",
    show_default=True,
    metavar="WHEN",
    callback=parse_moment_option,
    help="Compute what calls since then would have cost.",
)
@listing_options
@conf_option
def price(
    slug: str | None,
    above: int | None,
    add_tier: bool,
    from_date: datetime | None,
    add_day: bool,
    tried_file: Path | None,
    since: str,
    form: Form,
    conf_file: Path,
    **given: str | None,
) -> None:
    """Change prices of the model SLUG, in the overlay if there is one, and show what calls would have cost.

    Prices are wholesale USD per million.
    """
    place = "" if from_date is None else f"dated[{from_date.date()}]."
    place += "" if above is None else f"tiers[{above}]."
    prices = {f"{place}{key}": text for key, text in given.items() if text is not None}
    _check_usage(slug, prices, place, tried_file)
    if add_tier and above is None:
        raise click.UsageError("--add-tier needs --above, its bound")
    if add_day and from_date is None:
        raise click.UsageError("--add-day needs --from, the day")
    with report_errors():
        settings = load_served_settings(conf_file)
        if tried_file is not None:
            written_to, after = None, _load_tried(settings, conf_file, tried_file)
            effect: Effect | None = _measure(settings, after, since)
        else:
            found = _find_slug(settings, slug or "")
            timed = _find_timed(settings.models[found], from_date, add_day)
            if above is not None:
                _check_tier(found, timed, above, add_tier)
            written_to, after = _write(settings, conf_file, found, prices)
            effect = _try_to_measure(settings, after, since)
    report = Report(settings.models, after.models, since, written_to, effect)
    click.echo(format_report(report, form), nl=form != "csv")


def _check_usage(slug: str | None, prices: Mapping[str, str], place: str, tried_file: Path | None) -> None:
    if tried_file is not None and (slug is not None or prices or place):
        raise click.UsageError("--what-if takes all prices from its FILE: no SLUG and no price beside it")
    if tried_file is None and (slug is None or not prices):
        raise click.UsageError("give a SLUG and a price, such as --input 1.25, or --what-if FILE")


def _find_slug(settings: Settings, name: str) -> str:
    if (model := ModelNames(settings.models).find(name)) is not None:
        return model.slug
    shown = mask_credentials(shorten_name(name))
    raise click.ClickException(f'unknown model "{shown}"{suggest_name(name, settings.models)}')


def _find_timed(model: Model, from_date: datetime | None, add_day: bool) -> Prices | None:
    """Return the prices that hold from a day on, None where they are to be added. Without a day, those of the table.

    Raises ``ClickException`` for a day that is not there, or for one that is there but to be added.
    """
    if from_date is None:
        return model.wholesale
    days = {one.from_date: one.wholesale for one in model.timed if one.from_date and one.hours is None}
    day = from_date.date()
    if add_day and day in days:
        reason = f"prices from {day} on already; leave --add-day out"
    elif not add_day and day not in days:
        known = f"its days: {', '.join(map(str, days))}" if days else "it has none from any day on"
        reason = f"no prices from {day} on ({known}); add them with --add-day"
    else:
        return days.get(day)
    raise click.ClickException(f'the model "{model.slug}" has {reason}')


def _check_tier(slug: str, prices: Prices | None, above: int, add_tier: bool) -> None:
    """Raise ``ClickException`` for a bound that is not there, or for one that is there but to be added."""
    bounds = [tier.above_prompt_tokens for tier in prices.tiers] if prices else []
    if add_tier and above in bounds:
        reason = f"a tier above {above} already; leave --add-tier out"
    elif not add_tier and above not in bounds:
        known = f"its bounds: {', '.join(map(str, bounds))}" if bounds else "it has no tiers"
        reason = f"no tier above {above} ({known}); add one with --add-tier"
    else:
        return
    raise click.ClickException(f'the model "{slug}" has {reason}')


def _write(
    settings: Settings, conf_file: Path, slug: str, prices: Mapping[str, str]
) -> tuple[Path | None, Settings]:
    """Write the prices. Return the file, None where it has them already, and the settings with it."""
    paths = settings.conf.paths
    with edited_models(conf_file, find_edited_folder(paths, conf_file)) as file:
        text = _set_prices(file, paths.catalog / MODELS, slug, prices)
        if text == file.text:
            return None, settings
        listed = ", ".join(f"{key} to {text}" for key, text in prices.items())
        return file.path, file.write(text, "catalog price", f"Set prices of the model {slug}: {listed}")


def _set_prices(file: ModelsFile, catalog: Path, slug: str, prices: Mapping[str, str]) -> str:
    """Return the text of the file with these prices. A model that it lacks gets a copy of its whole table."""
    tables: dict[str, Any] = load_toml(file.text)
    if tables.get(slug) == _HIDDEN:
        raise ValueError(f'hides the model "{slug}", which so has no price here; remove that table first')
    if slug in tables:
        return set_prices(file.text, {slug: prices})
    table = copy_table(Sources().read_text(catalog), slug)
    changed = set_prices(table, {slug: prices})
    if changed == table:
        return file.text
    origin = f"# Prices set on {datetime.now(UTC).date()}. Without this table, upgrades set them again.\n"
    return add_table(file.text, origin + changed)


def _load_tried(settings: Settings, conf_file: Path, tried_file: Path) -> Settings:
    """Return the settings as they would be with another file. Raises ``SettingsError`` that names that file."""
    edited = find_edited_folder(settings.conf.paths, conf_file) / MODELS
    try:
        content = read_regular_file(tried_file, MAX_FILE_BYTES)
    except OSError as error:
        raise SettingsError(tried_file, "", describe_error(error)) from None
    if len(content) > MAX_FILE_BYTES:
        raise SettingsError(tried_file, "", f"larger than {MAX_FILE_BYTES} bytes")
    try:
        return SettingsFiles(conf_file, overlay={edited: decode_text(content, tried_file)}).load()
    except SettingsError as error:
        file = tried_file if error.file == edited else error.file
        raise SettingsError(file, error.key, error.reason) from None


def _measure(before: Settings, after: Settings, since: str) -> Effect:
    slugs = find_changed(before.models, after.models)
    with open_ledger(find_ledger(before.conf)) as ledger:
        note_missing(find_missing(ledger, since, None))
        rows = select_model_calls(ledger, slugs, since, COLUMNS)
        return measure_effect(rows, before.models, after.models)


def _try_to_measure(before: Settings, after: Settings, since: str) -> Effect | None:
    """Return what calls would have cost. Where the ledger can't be read, print a warning: the prices are written."""
    try:
        return _measure(before, after, since)
    except click.ClickException as error:
        click.echo(f"warning: what calls would have cost is not known: {error.message}", err=True)
        return None
