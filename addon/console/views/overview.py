"""``/``: what calls cost, how they went, who is refused, and which budgets run out first."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from addon.console.query import NAME_FILTERS
from addon.console.time_range import TimeRange
from addon.console.view import Reading, View
from addon.console.views.overview_budgets import load_budgets
from addon.console.views.overview_providers import load_providers
from addon.console.views.overview_spend import choose_step, list_splits, load_spend, parse_split
from addon.settings.errors import describe_error
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.figures import PERCENTILES, Figures, Groups, merge_groups, rank, read_figures
from addon.store.money.reports.report import count_holds, find_refusals, ledger_counters
from addon.store.money.reports.sum_sources import SUMS
from addon.store.protocol import StoreUnavailable
from addon.text.table import Table

TOP_ROWS: Final = 10
"""How many models, workspaces and refusals the page shows."""

FIGURES: Final = ("time", "from", "to", *SUMS, "error_rate", *PERCENTILES)
TOP: Final = (*SUMS, "error_rate")


def load_overview(reading: Reading) -> View:
    """Return the figures of the wanted time, next to those of the time before."""
    time = TimeRange.parse(reading.query, reading.now)
    by = parse_split(reading.query)
    wanted, before = make_filter(reading, time), make_filter(reading, time.before())
    by_provider = read_figures(reading.ledger, ("provider",), wanted, has_distributions=True)
    by_model = read_figures(reading.ledger, ("model_slug",), wanted, choose_step(time))
    earlier = read_figures(reading.ledger, (), before, has_distributions=True)
    whole = merge_groups(by_provider)
    is_of_model = bool(wanted.model or wanted.provider)
    spend = load_spend(reading, time, wanted, by, by_model)
    limits, missing = _load_limits(reading, wanted)
    tables = {
        "figures": Table(FIGURES, [_row("now", time, whole), _row("before", time.before(), earlier)]),
        "spend": spend.table,
        "models": _make_top(("model_slug",), merge_groups(by_model, 1)),
        "workspaces": _make_top(("workspace",), read_figures(reading.ledger, ("workspace",), wanted)),
        "providers": load_providers(reading, wanted, by_provider),
        **({} if is_of_model else {"refusals": find_refusals(reading.ledger, wanted, TOP_ROWS)}),
        **limits.tables,
    }
    values = {
        **time.values(),
        "by": by,
        "calls_in_flight": limits.values["calls_in_flight"],
        "missing": missing,
    }
    shown = {
        "time": time,
        "spend": spend,
        "now": tables["figures"].records()[0],
        "before": tables["figures"].records()[1],
        "filters": _list_filters(reading),
        "filter_names": NAME_FILTERS,
        "splits": list_splits(reading.settings.workspaces.values(), by),
    }
    return View(tables, values, shown)


def make_filter(reading: Reading, time: TimeRange) -> Filter:
    """Return the filter of the URL for a time."""
    text = reading.query.text
    return Filter(
        workspace=text("workspace"),
        model=text("model"),
        since=time.since,
        until=time.filter_until,
        key=text("key"),
        provider=text("provider"),
    )


def _row(name: str, time: TimeRange, whole: Groups) -> tuple[Any, ...]:
    figures = whole.get((), Figures())
    return (name, time.since, time.until, *figures.sums, figures.error_rate, *figures.percentiles())


def _make_top(names: tuple[str, ...], groups: Groups) -> Table:
    """Return the groups that cost most."""
    rows = [(*name, *groups[name].sums, groups[name].error_rate) for name in rank(groups)[:TOP_ROWS]]
    return Table((*names, *TOP), rows)


def _load_limits(reading: Reading, wanted: Filter) -> tuple[View, list[str]]:
    """Return the budgets and the calls in flight, and a sentence for each that can't be read."""
    try:
        read_used = ledger_counters(reading.ledger)
        budgets = load_budgets(reading, read_used, replace(wanted, since=None, until=None))
        return View({"budgets": budgets}, {"calls_in_flight": count_holds(reading.ledger, wanted)}), []
    except StoreUnavailable as error:
        reason = f"Budgets and calls in flight are not shown: {describe_error(error)}"
        return View({}, {"calls_in_flight": None}), [reason]


def _list_filters(reading: Reading) -> Mapping[str, list[str]]:
    """Return the names that each filter offers: those of the settings."""
    settings = reading.settings
    return {
        "workspace": sorted(settings.workspaces),
        "model": sorted(settings.models),
        "provider": sorted(
            {place.provider.name for model in settings.models.values() for place in model.places}
        ),
    }
