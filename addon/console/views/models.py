"""``/models``: the catalog with its prices, and how each model was used in the chosen time."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from addon.console.display import count, money, percent, short_count
from addon.console.query import Query
from addon.console.time_range import TimeRange
from addon.console.view import Reading, View
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.figures import find_error_rate
from addon.store.money.reports.report import find_totals
from addon.text.table import Table
from policies.model import Model
from policies.prices import Prices

_PRICES: Final = ("input", "cached_input", "cache_write", "output")
_USE: Final = (
    "calls",
    "failed_calls",
    "prompt_tokens",
    "completion_tokens",
    "retail_nanousd",
    "wholesale_nanousd",
)
COLUMNS: Final = (
    *("model_slug", "provider", "family", "upstream_model_id", "state", "max_completion_tokens"),
    *(f"{name}_microusd_per_mtok" for name in _PRICES),
    *(f"wholesale_{name}_microusd_per_mtok" for name in _PRICES),
    *("margin_percent", "active", "byok_only", "sandbox", "has_platform_key", "in_catalog"),
    *(*_USE, "error_rate", "margin_nanousd"),
)

SORTABLE: Final = (
    *("model_slug", "provider", "state", "input_microusd_per_mtok", "output_microusd_per_mtok"),
    *("margin_percent", "calls", "error_rate", "prompt_tokens", "completion_tokens"),
    *("retail_nanousd", "margin_nanousd"),
)
_SORTS: Final = (*SORTABLE, *(f"-{column}" for column in SORTABLE))
_USUAL_SORT: Final = "-retail_nanousd"

_NO_USE: Final[Mapping[str, int]] = dict.fromkeys(_USE, 0)


def load_models(reading: Reading) -> View:
    """Return the models of the catalog, and others that were called in the chosen time."""
    query, models = reading.query, reading.settings.models
    time = TimeRange.parse(query, reading.now)
    sort = query.choice("sort", _SORTS, _USUAL_SORT)
    use = _find_use(reading, time)
    rows = [
        *(_make_row(model.at(reading.now), use.get(model.slug, _NO_USE)) for model in models.values()),
        *(_make_row_outside(used) for slug, used in use.items() if slug not in models),
    ]
    wanted = _sort([row for row in rows if _is_wanted(row, query)], sort)
    table = Table(COLUMNS, [[row[column] for column in COLUMNS] for row in wanted])
    totals = {name: sum(row[name] for row in wanted) for name in _USE}
    shown = {
        "time": time,
        "sortable": SORTABLE,
        "providers": sorted({row["provider"] for row in rows}),
        "figures": _make_figures(wanted, totals),
    }
    values = {**time.values(), "totals": totals}
    return View({"models": table}, values, shown)


def _find_use(reading: Reading, time: TimeRange) -> Mapping[str, Mapping[str, Any]]:
    """Return the sums of each model. A model outside the catalog has the provider that served it most."""
    wanted = Filter(since=time.since, until=time.filter_until, workspace=reading.query.text("workspace"))
    found: dict[str, dict[str, Any]] = {}
    for record in find_totals(reading.ledger, "model,provider", wanted, None).records():
        one = found.setdefault(record["model_slug"], {**record, **_NO_USE})
        one.update({name: one[name] + record[name] for name in _USE})
    return found


def _make_row(model: Model, use: Mapping[str, Any]) -> dict[str, Any]:
    provider = model.provider
    return {
        "model_slug": model.slug,
        "provider": provider.name,
        "family": model.family.name,
        "upstream_model_id": model.upstream_model_id,
        "state": _find_state(model),
        "max_completion_tokens": model.max_completion_tokens if model.serves == "chat" else None,
        **_price_columns("", model.retail),
        **_price_columns("wholesale_", model.wholesale),
        "margin_percent": _find_margin(model),
        "active": model.active,
        "byok_only": model.byok_only,
        "sandbox": provider.builtin,
        "has_platform_key": any(place.provider.has_platform_key for place in model.places),
        "in_catalog": True,
        **_use_columns(use),
    }


def _make_row_outside(use: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a model that is not in the catalog: a customer's own, or one that was removed."""
    known = {
        "model_slug": use["model_slug"],
        "provider": use["provider"],
        "state": "not in the catalog",
        "in_catalog": False,
    }
    return {**dict.fromkeys(COLUMNS), **known, **_use_columns(use)}


def _price_columns(prefix: str, prices: Prices) -> dict[str, int | None]:
    return {
        f"{prefix}{name}_microusd_per_mtok": getattr(prices, f"{name}_microusd_per_mtok") for name in _PRICES
    }


def _use_columns(use: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: use[name] for name in _USE},
        "error_rate": find_error_rate(use["failed_calls"], use["calls"]),
        "margin_nanousd": use["retail_nanousd"] - use["wholesale_nanousd"],
    }


def _find_state(model: Model) -> str:
    if not model.active:
        return "hidden"
    if model.provider.builtin:
        return "sandbox"
    if model.byok_only:
        return "BYOK only"
    return "active" if model.provider.has_platform_key else "no platform key"


def _find_margin(model: Model) -> float | None:
    """Return the part of the retail price that is not the provider's, of input and output together."""
    retail, wholesale = (
        prices.input_microusd_per_mtok + prices.output_microusd_per_mtok
        for prices in (model.retail, model.wholesale)
    )
    return float(round(Decimal(100 * (retail - wholesale)) / retail, 4)) if retail else None


def _is_wanted(row: Mapping[str, Any], query: Query) -> bool:
    words = (query.text("q") or "").casefold().split()
    names = " ".join(
        str(row[name] or "") for name in ("model_slug", "provider", "family", "upstream_model_id")
    ).casefold()
    provider = query.text("provider")
    return all(word in names for word in words) and provider in (None, row["provider"])


def _sort(rows: Iterable[Mapping[str, Any]], sort: str) -> Sequence[Mapping[str, Any]]:
    """Return rows by one column. Rows without a value come last, and equal ones by name."""
    column, is_descending = sort.removeprefix("-"), sort.startswith("-")
    named = sorted(rows, key=lambda row: row["model_slug"])
    known = [row for row in named if row[column] is not None]
    return [
        *sorted(known, key=lambda row: row[column], reverse=is_descending),
        *(row for row in named if row[column] is None),
    ]


def _make_figures(
    rows: Sequence[Mapping[str, Any]], totals: Mapping[str, int]
) -> Sequence[tuple[str, str, str]]:
    """Return labels, figures and notes for the top of the page."""
    ready = sum(row["state"] in {"active", "sandbox"} for row in rows)
    errors = percent(totals["failed_calls"] / totals["calls"]) if totals["calls"] else percent(0)
    earned = totals["retail_nanousd"] - totals["wholesale_nanousd"]
    tokens = totals["prompt_tokens"] + totals["completion_tokens"]
    return [
        ("Models", count(len(rows)), f"{count(ready)} served with platform keys"),
        ("Used", count(sum(row["calls"] > 0 for row in rows)), "in this time"),
        ("Calls", short_count(totals["calls"]), f"{errors} failed"),
        ("Tokens", short_count(tokens), "input and output"),
        ("Spend", money(totals["retail_nanousd"]), f"{money(earned)} margin"),
    ]
