"""``/workspaces``: all workspaces with what they spend, what is left, and what is wrong."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from addon.console import display
from addon.console.cells import NOTHING, Cell
from addon.console.charts.bar import draw_bar
from addon.console.query import ParameterError
from addon.console.time_range import TimeRange
from addon.console.view import Reading, View
from addon.console.views.workspace_shown import show_wallet
from addon.console.views.workspace_states import (
    STATES,
    State,
    find_problems,
    find_state,
    find_workspace_warnings,
)
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.figures import find_error_rate
from addon.store.money.reports.names import find_recorded_workspaces
from addon.store.money.reports.report import (
    find_balances,
    find_limits,
    find_refusals,
    find_totals,
    ledger_counters,
)
from addon.store.money.reports.wallet_credits import find_last_credits, find_wallet_cap
from addon.store.protocol import StoreUnavailable
from addon.text.masking import mask_credentials
from addon.text.table import Table
from policies.limits import rpm_of
from policies.model import Key, Workspace

RANKED: Final = ("retail_nanousd", "calls", "failed_calls", "error_rate", "refused_calls")
SORTS: Final = tuple(f"{sign}{column}" for column in ("workspace", *RANKED) for sign in ("", "-"))
"""A minus sorts the highest first, or names from Z to A."""

PAGE_ROWS: Final = 100

COLUMNS: Final = (
    *("workspace", "name", "state", "plan", "limit_rpm", "keys", "active_keys"),
    *("calls", "failed_calls", "error_rate", "retail_nanousd", "refused_calls"),
    *("wallet_left_nanousd", "month_left_nanousd", "warnings"),
    *("wallet_balance_nanousd", "last_credit_nanousd", "month_cap_nanousd"),
)

_NO_KEY: Final = Key("", "")
_CURSOR_MARK: Final = "~"
"""Separates the parts of ``after``. No name of a workspace has it."""


@dataclass(frozen=True, slots=True)
class _Used:
    """The use of a workspace in the chosen time."""

    calls: int = 0
    failed_calls: int = 0
    retail_nanousd: int = 0
    refused_calls: int = 0

    @property
    def error_rate(self) -> float | None:
        """The part of the calls that failed."""
        return find_error_rate(self.failed_calls, self.calls)

    def rank(self, column: str) -> int:
        """Return the number to sort by. Rates are in millionths."""
        if column == "error_rate":
            return round((self.error_rate or 0) * 1_000_000)
        return int(getattr(self, column)) if column in RANKED else 0


_UNUSED: Final = _Used()


@dataclass(frozen=True, slots=True)
class _Budget:
    """The wallet and the month of a workspace, in nano-USD. Each is None where there is none."""

    wallet_left: int | None = None
    balance: int | None = None
    last_credit: int | None = None
    month_left: int | None = None
    month_cap: int | None = None


_UNKNOWN: Final = _Budget()


def load_workspaces(reading: Reading) -> View:
    """Return a page of the workspaces that are in the files or in the ledger."""
    time = TimeRange.parse(reading.query, reading.now)
    search, sort = reading.query.text("q"), reading.query.choice("sort", SORTS, "-retail_nanousd")
    problems = find_problems(reading.settings)
    used = _read_used(reading, time)
    known = {*reading.settings.workspaces, *problems, *find_recorded_workspaces(reading.ledger), *used}
    found = [one for one in known if _is_wanted(one, search, reading.settings.workspaces)]
    rest = _sort(found, used, sort, _parse_after(reading))
    page = rest[:PAGE_ROWS]
    states = {one: find_state(one, reading.settings, problems) for one in page}
    rows, fault = _make_rows(reading, states, used)
    values = {
        **time.values(),
        "workspaces_found": len(found),
        "next_after": _format_after(page[-1], used, sort) if len(rest) > len(page) else None,
        "counters_fault": fault,
    }
    shown = {
        **{"time": time, "sortable": ("workspace", *RANKED), "search": search or "", "states": STATES},
        "budget_cells": BUDGET_CELLS,
    }
    return View({"workspaces": Table(COLUMNS, rows)}, values, shown)


def _is_wanted(workspace_id: str, search: str | None, workspaces: Mapping[str, Workspace]) -> bool:
    if search is None:
        return True
    name = workspaces[workspace_id].name if workspace_id in workspaces else ""
    return search.casefold() in f"{workspace_id}\n{name}".casefold()


def _sort(
    found: Iterable[str], used: Mapping[str, _Used], sort: str, after: tuple[int, str] | None
) -> list[str]:
    """Return these workspaces in order, those after a place only. Equal ones are in the order of their names."""
    column, is_descending = sort.removeprefix("-"), sort.startswith("-")
    sign = -1 if is_descending else 1
    places = [(sign * used.get(one, _UNUSED).rank(column), one) for one in found]
    if column == "workspace" and is_descending:
        return [one for _, one in sorted(places, reverse=True) if after is None or one < after[1]]
    return [one for rank, one in sorted(places) if after is None or (rank, one) > (sign * after[0], after[1])]


def _parse_after(reading: Reading) -> tuple[int, str] | None:
    text = reading.query.text("after")
    if text is None:
        return None
    rank, mark, name = text.partition(_CURSOR_MARK)
    if not (mark and rank.isascii() and rank.isdigit()):
        raise ParameterError("after", "must be the next_after of a page")
    return int(rank), name


def _format_after(workspace_id: str, used: Mapping[str, _Used], sort: str) -> str:
    rank = used.get(workspace_id, _UNUSED).rank(sort.removeprefix("-"))
    return f"{rank}{_CURSOR_MARK}{workspace_id}"


def _read_used(reading: Reading, time: TimeRange) -> Mapping[str, _Used]:
    wanted = Filter(since=time.since, until=time.filter_until)
    refused: Counter[str] = Counter()
    for row in find_refusals(reading.ledger, wanted, None).records():
        if row["workspace"] is not None:
            refused[row["workspace"]] += row["count"]
    totals = {
        row["workspace"]: row for row in find_totals(reading.ledger, "workspace", wanted, None).records()
    }
    return {one: _make_used(totals.get(one), refused[one]) for one in totals.keys() | refused.keys()}


def _make_used(totals: Mapping[str, Any] | None, refused: int) -> _Used:
    if totals is None:
        return _Used(refused_calls=refused)
    return _Used(totals["calls"], totals["failed_calls"], totals["retail_nanousd"], refused)


def _make_rows(
    reading: Reading, states: Mapping[str, State], used: Mapping[str, _Used]
) -> tuple[list[tuple[Any, ...]], str | None]:
    """Return the rows of these workspaces, and why the counters can't be read, if so."""
    settings = reading.settings
    chosen = [settings.workspaces[one] for one in states if one in settings.workspaces]
    warnings = Counter(one.name for one in find_workspace_warnings(settings, chosen, reading.now))
    budgets, fault = _read_budgets(reading, states, chosen)
    rows = []
    for one, state in states.items():
        amounts = used.get(one, _UNUSED)
        budget = budgets.get(one, _UNKNOWN)
        rows.append(
            (
                one,
                *_describe(settings.workspaces.get(one), state, reading),
                *(amounts.calls, amounts.failed_calls, amounts.error_rate),
                *(amounts.retail_nanousd, amounts.refused_calls),
                *(budget.wallet_left, budget.month_left, warnings[one]),
                *(budget.balance, budget.last_credit, budget.month_cap),
            )
        )
    return rows, fault


def _describe(workspace: Workspace | None, state: State, reading: Reading) -> tuple[Any, ...]:
    if workspace is None:
        return (None, state, None, None, None, None)
    limits = reading.settings.conf.limits
    return (
        workspace.name,
        state,
        workspace.plan,
        rpm_of(workspace, limits.standard_rpm, limits.pro_rpm),
        len(workspace.keys),
        count_active(workspace.keys, reading),
    )


def count_active(keys: Iterable[Key], reading: Reading) -> int:
    """Return how many keys are accepted now."""
    return sum(key.why_refused(reading.now) is None for key in keys)


def _read_budgets(
    reading: Reading, states: Iterable[str], workspaces: Collection[Workspace]
) -> tuple[Mapping[str, _Budget], str | None]:
    """Return what is left of wallets and months. The second value says why the counters can't be read, if so.

    A Pro workspace needs no wallet. It has one if it was ever credited.
    """
    # The limits of the workspace alone: one key without caps has no others.
    bare = [replace(workspace, keys=(_NO_KEY,)) for workspace in workspaces]
    credits = find_last_credits(reading.ledger, states)
    try:
        read_used = ledger_counters(reading.ledger)
        limits = find_limits(read_used, bare, reading.now, credits).records()
        wallets = find_balances(read_used, states).records()
    except StoreUnavailable as error:
        return {}, mask_credentials(str(error))
    of = {(row["workspace"], row["limit"]): row for row in limits}
    budgets = {}
    for wallet in wallets:
        one = wallet["workspace"]
        month, last_credit = of.get((one, "monthly_spend_cap")), credits.get(one)
        budget = _UNKNOWN
        if (one, "wallet") in of or last_credit or wallet["balance_nanousd"] or wallet["held_nanousd"]:
            credit = last_credit.amount_nanousd if last_credit else None
            budget = _Budget(wallet["left_nanousd"], wallet["balance_nanousd"], credit)
        if month:
            budget = replace(budget, month_left=month["left_nanousd"], month_cap=month["cap_nanousd"])
        budgets[one] = budget
    return budgets, None


def _show_wallet(row: Mapping[str, Any]) -> Cell:
    left, balance = row["wallet_left_nanousd"], row["wallet_balance_nanousd"]
    if left is None:
        return NOTHING
    cap = find_wallet_cap(balance, row["last_credit_nanousd"] or 0)
    return show_wallet(cap - balance, balance - left, cap, display.money(left))


def _show_month(row: Mapping[str, Any]) -> Cell:
    left, cap = row["month_left_nanousd"], row["month_cap_nanousd"]
    if left is None:
        return NOTHING
    label = f"{display.exact_money(left)} left of {display.money(cap)}"
    return Cell(display.money(left), label, "number", svg=draw_bar(cap - left, cap, label))


BUDGET_CELLS: Final = {"wallet_left_nanousd": _show_wallet, "month_left_nanousd": _show_month}
