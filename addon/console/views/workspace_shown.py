"""The parts that only the page ``/workspaces/ID`` has: tiles, bars of limits, and facts about settings."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from addon.console import display
from addon.console.cells import NOTHING, Cell, Mark, badge, bar_cell, make_cell, text_cell
from addon.console.charts.bar import draw_bar
from addon.console.charts.stacked_bars import Series, StackedBars, draw_stacked_bars
from addon.console.time_range import TimeRange
from addon.text.table import Table

KEY_COLUMNS: Final = (
    *("key_id", "label", "state", "expires_at", "previous_until", "models", "spend_cap", "request_cap"),
    *("tpm", "calls", "failed_calls", "retail_nanousd", "refused_calls", "last_call_hour"),
)
_RARE_KEY_COLUMNS: Final = frozenset(
    {"label", "expires_at", "previous_until", "models", "tpm", "last_call_hour"}
)
_KEY_MARKS: Final[Mapping[str, Mark]] = {"active": "ok", "expired": "warn", "not active": "off"}

_MOST_BARS: Final = 120
"""How many hours or days before the first call the chart shows."""

type Row = Mapping[str, Any]
type MakeCell = Callable[[Row], Cell]


def choose_key_columns(keys: Table) -> Sequence[str]:
    """Return the columns of the table of keys. One that few keys have is shown where one has it."""
    rows = keys.records()
    return [
        one
        for one in KEY_COLUMNS
        if one not in _RARE_KEY_COLUMNS or any(row[one] is not None for row in rows)
    ]


def make_key_cells(limits: Table) -> Mapping[str, MakeCell]:
    """Return how the table of keys shows its columns. Caps are bars of the current period."""
    by_key = {(row["key_id"], row["limit"]): row for row in limits.records()}
    return {
        "state": lambda row: badge(row["state"], _KEY_MARKS[row["state"]]),
        "previous_until": lambda row: make_cell("previous_until_at", row["previous_until"]),
        "last_call_hour": lambda row: make_cell("last_hour", row["last_call_hour"]),
        "spend_cap": lambda row: _show_cap(row, "spend_cap", by_key),
        "request_cap": lambda row: _show_cap(row, "request_cap", by_key),
        "change": lambda row: Cell("Change", f"Change, rotate or revoke the key {row['key_id']}"),
    }


ROUTING_CELLS: Final[Mapping[str, MakeCell]] = {
    "rules": lambda row: Cell("Change", f"Change, move or remove the rule {row['place']}"),
    "heuristics": lambda row: Cell("Change", f"Change, move or remove the heuristic {row['place']}"),
    "aliases": lambda row: Cell("Change", f"Change or remove the alias {row['place']}"),
    "byok": lambda row: Cell("Change", f"Change or remove the own key for {row['provider']}"),
}
"""The cells that link to forms, by the name of the table."""


def _show_cap(row: Row, limit: str, by_key: Mapping[tuple[str, str], Row]) -> Cell:
    found = by_key.get((row["key_id"], limit))
    if found is not None:
        return show_use(found)
    cap = row["spend_cap_nanousd"] if limit == "spend_cap" else row["request_cap"]
    if cap is None:
        return NOTHING
    return Cell(display.money(cap) if limit == "spend_cap" else display.count(cap), kind="number")


def show_wallet(spent: int, held: int, cap: int, text: str = "") -> Cell:
    """Return how much of the last credit of a wallet is used, as a bar and in words. Without one, show no bar."""
    left = cap - spent - held
    used = f"{display.money(spent)} of {display.money(cap)}"
    if cap <= 0:
        return Cell(text or used, display.exact_money(left), "number")
    label = f"{display.exact_money(left)} left: {used} used since the last credit, {display.money(held)} held"
    return Cell(text or used, label, "number", svg=draw_bar(spent, cap, label, held))


def show_use(row: Row) -> Cell:
    """Return how much of a limit is used, as a bar and in words. ``row`` is one of ``store.money.reports.report``."""
    if row["limit"] == "wallet":
        return show_wallet(row["spent_nanousd"], row["held_nanousd"], row["cap_nanousd"])
    if row["limit"] == "request_cap":
        used, held, cap = row["requests"], row["requests_in_flight"], row["request_cap"]
        show: Callable[[int], str] = display.count
    else:
        used, held, cap = row["spent_nanousd"], row["held_nanousd"], row["cap_nanousd"]
        show = display.money
    label = f"{show(used)} used and {show(held)} held of {show(cap)}, {_name_period(row['period'])}"
    text = f"{show(used)} of {show(cap)}"
    return Cell(text, label, "number", svg=draw_bar(used, cap, label, held))


def _name_period(period: str) -> str:
    return "in all" if period == "ever" else f"in {period}"


def _show_amount(row: Row, amount: str, requests: str) -> Cell:
    if row["limit"] == "request_cap":
        return make_cell(requests, row[requests])
    return make_cell(amount, row[amount])


LIMIT_CELLS: Final[Mapping[str, MakeCell]] = {
    "used": show_use,
    "held": lambda row: _show_amount(row, "held_nanousd", "requests_in_flight"),
    "left": lambda row: _show_amount(row, "left_nanousd", "requests_left"),
    "limit": lambda row: _name_limit(row),
}
"""How the table of limits shows its columns."""
BUDGET_CELLS: Final[Mapping[str, MakeCell]] = {
    "used": lambda row: bar_cell(
        row["spent_nanousd"],
        row["cap_nanousd"],
        f"{display.money(row['spent_nanousd'])} of {display.money(row['cap_nanousd'])} used",
        row["held_nanousd"],
    ),
}
"""How the table of budgets shows its columns."""


def _name_limit(row: Row) -> Cell:
    name = row["limit"].replace("_", " ").capitalize()
    return text_cell(f"{name} of {row['budget']} {row['value']}") if row.get("budget") else Cell(name)


def make_facts(settings: Row | None, file: str | None) -> Sequence[tuple[Any, ...]]:
    """Return the settings that have one value each, as names and values."""
    if settings is None:
        return ()
    own_rpm = settings["rpm_override"] is not None
    return [
        ("Name", settings["name"]),
        ("Plan", settings["plan"]),
        ("Calls a minute", f"{settings['limit_rpm']:,} ({'its own' if own_rpm else 'of the plan'})"),
        ("Tokens a minute", "no limit" if settings["tpm"] is None else f"{settings['tpm']:,}"),
        ("Calls at once", settings["max_in_flight"]),
        ("Monthly spend cap", _show_money(settings["monthly_spend_cap_nanousd"])),
        ("Overage protection", "on" if settings["overage_protection"] else "off"),
        ("Default model", settings["default_model"]),
        ("Fallback model", settings["fallback_model"]),
        ("Model for long prompts", settings["context_fallback_model"]),
        ("Safety Net", "on" if settings["safety_net"] else "off"),
        ("Alerts at", ", ".join(f"{one}%" for one in settings["alert_at_percent"]) or "never"),
        ("Tools of providers", ", ".join(settings["hosted_tools"]) or "none"),
        ("File", file),
    ]


def _show_money(nanousd: int | None) -> str | None:
    return None if nanousd is None else display.exact_money(nanousd)


def make_tiles(values: Row, tables: Mapping[str, Table], before: Row) -> Sequence[Mapping[str, Any]]:
    """Return the fields of the figures at the top: the use in the time, with that before, and what is left now."""
    totals = next(iter(tables["totals"].records()), {})
    calls, failed = totals.get("calls", 0), totals.get("failed_calls", 0)
    spend = totals.get("retail_nanousd", 0)
    tiles = [
        _tile("Spend", display.money(spend), spend, before.get("retail_nanousd", 0)),
        _tile("Calls", display.short_count(calls), calls, before.get("calls", 0)),
        {
            "label": "Failed calls",
            "text": display.count(failed),
            "note": display.percent(failed / calls) if calls else "",
        },
        {"label": "Refused calls", "text": display.count(values["refused_calls"])},
    ]
    wallet = values["wallet"]
    if values["settings"] is None or values["settings"]["plan"] != "pro" or wallet["balance_nanousd"]:
        left = wallet["left_nanousd"]
        tiles.append(_left_tile("Wallet left", left))
    for row in tables["limits"].records():
        if row["limit"] == "monthly_spend_cap":
            cap = display.money(row["cap_nanousd"])
            tiles.append({**_left_tile("Month left", row["left_nanousd"]), "note": f"of {cap}"})
    return tiles


def _tile(label: str, text: str, now: int, before: int) -> Mapping[str, Any]:
    return {"label": label, "text": text, "change": display.change(now, before)}


def _left_tile(label: str, left_nanousd: int | None) -> Mapping[str, Any]:
    return {"label": label, "text": display.money(left_nanousd), "exact": display.exact_money(left_nanousd)}


def draw_spend(spend: Table, time: TimeRange) -> StackedBars | None:
    """Return the spend by hour or by day as a chart, None where there is none. Hours without calls are empty."""
    amounts = {_parse_period(row[0]): row[spend.columns.index("retail_nanousd")] for row in spend.rows}
    if not amounts:
        return None
    step = timedelta(hours=1) if spend.columns[0] == "hour" else timedelta(days=1)
    # A time may begin long before the first call.
    begins = [min(amounts)]
    while begins[0] > time.begin and len(begins) < _MOST_BARS:
        begins.insert(0, begins[0] - step)
    while begins[-1] + step < time.end:
        begins.append(begins[-1] + step)
    series = Series("Spend", [amounts.get(begin, 0) for begin in begins])
    return draw_stacked_bars("spend", "Spend over time", begins, time.end, [series], display.money)


def _parse_period(period: str) -> datetime:
    return datetime.fromisoformat(period).replace(tzinfo=UTC)
