"""``tollgate catalog update``: the prices of the installed genai-prices, as a diff or written into models.toml.

Source: docs/catalog.md.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import click

from addon.commands.catalog_comparison import compare_prices
from addon.commands.catalog_edits import CONTEXT_WINDOW, PRICE_KEYS, add_table, copy_table, set_prices
from addon.commands.catalog_files import MODELS, ModelsFile, edited_models, is_for_upgrades, refuse_shipped
from addon.commands.errors import report_errors
from addon.commands.options import conf_option, listing_options
from addon.commands.output import Form, format_table
from addon.commands.published_prices import KINDS, NEAREST, find_wanted_window
from addon.commands.published_times import Period, find_periods
from addon.commands.readers import load_served_settings
from addon.settings.settings import Settings
from addon.settings.sources import Sources
from addon.text.table import Table
from addon.text.table_formats import format_csv
from addon.text.toml import load_toml
from policies.model import Model
from policies.prices import PRICE_FIELDS, price_key

_KINDS: Final = {f"{kind}_price_per_m": kind for kind in KINDS}
_SHORT_TERM: Final = "cache_write_5m_price_per_m"
"""The key that wins over that of cache writes of any term."""
_SIX_DIGITS: Final = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class PriceChange:
    """A price of models.toml, in USD per million tokens, or a window in tokens, that differs from the published one.

    ``old`` is None when the table does not have the key. Of a price, another one applies then.
    """

    slug: str
    key: str
    old: str | None
    new: str

    @property
    def percent(self) -> str:
        """The change in percent."""
        if self.old is None or not Decimal(self.old):
            return "new"
        return f"{(Decimal(self.new) / Decimal(self.old) - 1) * 100:+.1f} %"


@click.command()
@click.option("--apply", "is_applied", is_flag=True, help="Write the published prices.")
@listing_options
@conf_option
def update(is_applied: bool, form: Form, conf_file: Path) -> None:
    """Show where the catalog's prices and windows differ from the installed genai-prices, by model and key.

    A model with a table in the overlay is yours: it is never changed.
    """
    day = datetime.now(UTC).date()
    with report_errors():
        settings = load_served_settings(conf_file)
        changes = find_changes(settings, day)
    yours = compare_prices(
        (settings.models[slug] for slug in settings.overlaid_slugs & settings.models.keys()), day
    )
    overlaid = sorted({one.slug for one in yours.disagreements})
    written = _apply(settings, conf_file, changes, day) if is_applied and changes else None
    if form == "json":
        listed = [asdict(change) | {"change": change.percent} for change in changes]
        found = {"changes": listed, "overlaid": overlaid, "written_to": str(written) if written else None}
        click.echo(json.dumps({"genai_prices": version("genai-prices")} | found, indent=2))
    elif form == "csv":
        click.echo(format_csv(_make_table(changes)), nl=False)
    else:
        click.echo(_format(changes, overlaid, written, form))


def find_changes(settings: Settings, day: date) -> list[PriceChange]:
    """Return the changes that make the catalog's prices those published for ``day`` (UTC). Raises ``SettingsError``.

    Overlaid models, builtin ones, and those that the package does not know have none.
    """
    tables = Sources().read_toml(settings.conf.paths.catalog / MODELS)
    changes: list[PriceChange] = []
    for slug in sorted(tables.keys() - settings.overlaid_slugs):
        model = settings.models[slug]
        if periods := [] if model.provider.builtin else find_periods(model, day):
            changes += _compare_times(model, tables[slug], periods)
            changes += _compare_window(model)
    return changes


def _compare_window(model: Model) -> Iterator[PriceChange]:
    """Yield the window to write, unless the table would not load with it."""
    window = find_wanted_window(model)
    if window is not None and window >= (model.max_completion_tokens or 0):
        old = None if model.context_window is None else str(model.context_window)
        yield PriceChange(model.slug, CONTEXT_WINDOW, old, str(window))


def _compare_times(model: Model, table: Mapping[str, Any], periods: list[Period]) -> Iterator[PriceChange]:
    """Yield the prices to write, time by time."""
    written = _find_written(model, table)
    for period in periods:
        own, around = written[period.stated_at]
        if period.place != period.stated_at:  # The catalog does not know of this change yet.
            is_plain = not (period.prices.tiers or period.prices.service_tiers or "hours" in period.place)
            if not is_plain:
                continue  # Such an entry has more than prices: `catalog check` names it.
            own, around = {}, {**around, **_find_stated(own, 0)}
        yield from _compare_period(model.slug, period, own, around)


type _Written = tuple[Mapping[str, Any], Mapping[str, Any]]


def _find_written(model: Model, table: Mapping[str, Any]) -> dict[str, _Written]:
    """Return the table of each time by its place, and the prices around it."""
    times = iter(model.timed)
    found: dict[str, _Written] = {"": (table, {})}
    around = _find_stated(table, 0)
    found |= {next(times).place: (one, around) for one in table.get("hours", ())}
    for dated in table.get("dated", ()):
        found[next(times).place] = dated, around
        around = {**around, **_find_stated(dated, 0)}
        found |= {next(times).place: (one, around) for one in dated.get("hours", ())}
    return found


def _compare_period(
    slug: str, period: Period, table: Mapping[str, Any], around: Mapping[str, Any]
) -> Iterator[PriceChange]:
    """Yield the prices to write. One that applies without being written needs no line."""
    known = dict(around)
    time = f"{period.place}." if period.place else ""
    bounds = {0, *period.published.tiers, *(tier.above_prompt_tokens for tier in period.prices.tiers)}
    for bound in sorted(bounds):
        stated = _find_stated(table, bound)
        known |= stated
        wanted = period.published.at(bound)
        applies: dict[str, Decimal] = {}
        for key in map(price_key, PRICE_FIELDS):
            kind = _KINDS.get(key)
            if kind is None or (key not in known and NEAREST.get(kind) not in applies):
                continue  # Of embeddings, no output has a price.
            price = Decimal(known[key]) if key in known else applies[NEAREST[kind]]
            applies[kind] = _round(wanted[kind]) if kind in wanted else price
            if applies[kind] != price:
                known[key] = format_price(applies[kind])
                place = f"{time}tiers[{bound}]." if bound else time
                written = _SHORT_TERM if kind == "cache_write" and _SHORT_TERM in table else key
                yield PriceChange(slug, f"{place}{written}", stated.get(key), known[key])


def _find_stated(table: Mapping[str, Any], bound: int) -> Mapping[str, Any]:
    """Return the prices that are written in the table of models.toml, or in that of its tier."""
    tiers = (tier for tier in table.get("tiers", ()) if tier["above_prompt_tokens"] == bound)
    found = next(tiers, {}) if bound else table
    stated = {key: price for key, price in found.items() if key in PRICE_KEYS}
    if (short := stated.pop(_SHORT_TERM, None)) is not None:
        stated["cache_write_price_per_m"] = short
    return stated


def _round(price: Decimal) -> Decimal:
    return price.quantize(_SIX_DIGITS, ROUND_HALF_UP)


def format_price(price: Decimal) -> str:
    """Return a price as models.toml has it: at most six fractional digits."""
    return f"{_round(price).normalize():f}"


def _apply(settings: Settings, conf_file: Path, changes: list[PriceChange], day: date) -> Path:
    """Write the changes in one edit. Return the file.

    The shipped catalog belongs to upgrades. So there a changed model gets a whole table in the overlay.
    """
    paths = settings.conf.paths
    by_slug: dict[str, dict[str, str]] = defaultdict(dict)
    for change in changes:
        by_slug[change.slug][change.key] = change.new
    summary = f"Set {len(changes)} figures of {len(by_slug)} models to those of genai-prices"
    if not is_for_upgrades(paths, conf_file):
        with edited_models(conf_file, paths.catalog) as file:
            file.write(set_prices(file.text, by_slug), "catalog update", summary)
            return file.path
    if paths.catalog_overlay is None:
        raise refuse_shipped(conf_file)
    with edited_models(conf_file, paths.catalog_overlay) as file:
        text = _overlay_tables(file, Sources().read_text(paths.catalog / MODELS), by_slug, day)
        file.write(text, "catalog update", summary)
        return file.path


def _overlay_tables(
    file: ModelsFile, shipped: str, by_slug: Mapping[str, Mapping[str, str]], day: date
) -> str:
    """Return the overlay's text with the shipped tables of these models at the new prices."""
    if taken := by_slug.keys() & load_toml(file.text).keys():
        raise ValueError(f"was edited meanwhile, and has {', '.join(sorted(taken))} now; try again")
    source = f"genai-prices {version('genai-prices')} on {day}"
    origin = f"# Prices of {source}. Without this table, upgrades set them again.\n"
    text = file.text
    for slug, prices in by_slug.items():
        text = add_table(text, origin + set_prices(copy_table(shipped, slug), {slug: prices}))
    return text


def _make_table(changes: list[PriceChange]) -> Table:
    rows = [(one.slug, one.key, one.old, one.new, one.percent) for one in changes]
    return Table(("slug", "key", "catalog", "published", "change"), rows)


def _format(changes: list[PriceChange], overlaid: list[str], written: Path | None, form: Form) -> str:
    parts = []
    if changes:
        parts.append(format_table(_make_table(changes), form, missing="none"))
    if overlaid:
        parts.append(
            "Yours, in the overlay, and left as they are:\n" + "\n".join(f"  {slug}" for slug in overlaid)
        )
    models = len({change.slug for change in changes})
    summary = f"{len(changes)} figures of {models} models differ from genai-prices {version('genai-prices')}."
    if written:
        summary += f" They were written to {written}."
    elif changes:
        summary += " --apply writes them."
    return "\n\n".join([*parts, summary])
