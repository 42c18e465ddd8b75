"""``/workspaces/ID``: one workspace with its settings, keys, limits, wallet and use."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from addon.console.query import ParameterError
from addon.console.time_range import TimeRange
from addon.console.view import NotFoundError, Reading, View
from addon.console.views.workspace_keys import choose_keys, make_keys_table
from addon.console.views.workspace_settings import make_settings_tables, make_settings_values
from addon.console.views.workspace_shown import (
    BUDGET_CELLS,
    LIMIT_CELLS,
    ROUTING_CELLS,
    choose_key_columns,
    draw_spend,
    make_facts,
    make_key_cells,
    make_tiles,
)
from addon.console.views.workspace_states import (
    find_problems,
    find_state,
    find_workspace_warnings,
)
from addon.edits.workspace_files import unknown_workspace_error
from addon.settings.errors import Problem
from addon.store.money.reports.budgets import find_budgets
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.names import is_recorded_workspace
from addon.store.money.reports.report import (
    LIMIT_COLUMNS,
    find_balances,
    find_entries,
    find_entry,
    find_limits,
    find_refusals,
    find_totals,
    ledger_counters,
)
from addon.store.money.reports.wallet_credits import find_last_credits
from addon.store.protocol import StoreUnavailable, WalletEntry
from addon.text.masking import mask_credentials
from addon.text.table import Table
from policies.budgets import capped_budgets
from policies.model import Key, Workspace

ENTRY_ROWS: Final = 20
TOP_MODELS: Final = 10
TOP_VALUES: Final = 10
"""How many users or tags of each budget the page shows."""

_LONGEST_BY_HOUR_DAYS: Final = 2
"""Longer times have their spend by day."""


def load_workspace(reading: Reading) -> View:
    """Return everything about one workspace. Raises ``NotFoundError``."""
    (workspace_id,) = reading.names
    time = TimeRange.parse(reading.query, reading.now)
    problems = find_problems(reading.settings)
    state = find_state(workspace_id, reading.settings, problems)
    if state == "deleted" and not is_recorded_workspace(reading.ledger, workspace_id):
        error = unknown_workspace_error(workspace_id, reading.settings.workspaces)
        raise NotFoundError(mask_credentials(str(error)))
    workspace = reading.settings.workspaces.get(workspace_id)
    keys, keys_after = choose_keys(workspace, reading)
    amounts, limits = _read_counters(reading, workspace_id, workspace, keys)
    entries, entries_before = _read_entries(reading, workspace_id)
    use = _make_use_tables(reading, workspace_id, time)
    values = {
        "workspace": workspace_id,
        "state": state,
        **make_settings_values(workspace, reading.settings),
        **_describe_problem(problems.get(workspace_id)),
        **time.values(),
        "refused_calls": sum(row["count"] for row in use["refusals"].records()),
        **amounts,
        **{"next_keys_after": keys_after, "next_entries_before": entries_before},
    }
    tables = {
        "keys": make_keys_table(reading, workspace_id, keys, time),
        "limits": limits,
        "budgets": find_budgets(reading.ledger, [workspace] if workspace else [], reading.now, TOP_VALUES),
        **use,
        "wallet_entries": entries,
        **make_settings_tables(workspace),
        "warnings": _make_warnings(reading, workspace),
    }
    return View(tables, values, _make_shown(reading, values, tables, time))


def _make_shown(
    reading: Reading, values: Mapping[str, Any], tables: Mapping[str, Table], time: TimeRange
) -> Mapping[str, Any]:
    earlier = time.before()
    wanted = Filter(values["workspace"], since=earlier.since, until=earlier.until)
    before = find_totals(reading.ledger, "workspace", wanted, None).records()
    workspace = reading.settings.workspaces.get(values["workspace"])
    return {
        "time": time,
        "has_budgets": bool(workspace and any(capped_budgets(workspace))),
        "tiles": make_tiles(values, tables, before[0] if before else {}),
        "key_columns": choose_key_columns(tables["keys"]),
        "key_cells": make_key_cells(tables["limits"]),
        "routing_cells": ROUTING_CELLS,
        "limit_cells": LIMIT_CELLS,
        "budget_cells": BUDGET_CELLS,
        "facts": make_facts(values["settings"], values["file"]),
        "chart": draw_spend(tables["spend"], time),
    }


def _read_counters(
    reading: Reading, workspace_id: str, workspace: Workspace | None, keys: tuple[Key, ...]
) -> tuple[Mapping[str, Any], Table]:
    """Return the wallet and the fault of the counters as values, and the limits of these keys."""
    chosen = [replace(workspace, keys=keys)] if workspace else []
    try:
        read_used = ledger_counters(reading.ledger)
        credits = find_last_credits(reading.ledger, [workspace_id])
        limits = find_limits(read_used, chosen, reading.now, credits)
        (wallet,) = find_balances(read_used, [workspace_id]).records()
    except StoreUnavailable as error:
        nothing = dict.fromkeys(("balance_nanousd", "held_nanousd", "left_nanousd"))
        return {"wallet": nothing, "counters_fault": mask_credentials(str(error))}, Table(LIMIT_COLUMNS, [])
    del wallet["workspace"]
    return {"wallet": wallet, "counters_fault": None}, limits


def _read_entries(reading: Reading, workspace_id: str) -> tuple[Table, str | None]:
    """Return a page of wallet entries, and the ``entries_before`` of the next page."""
    before = _find_before(reading, workspace_id)
    found = find_entries(reading.ledger, workspace_id, ENTRY_ROWS + 1, before)
    page = Table(found.columns, found.rows[:ENTRY_ROWS])
    if len(found.rows) <= ENTRY_ROWS:
        return page, None
    # The id of a credit begins with the workspace. Without it, the id fits into a parameter.
    entry_id = page.records()[-1]["id"]
    return page, entry_id.removeprefix(workspace_id) if entry_id.startswith(f"{workspace_id}/") else entry_id


def _find_before(reading: Reading, workspace_id: str) -> WalletEntry | None:
    text = reading.query.text("entries_before")
    if text is None:
        return None
    entry = find_entry(reading.ledger, workspace_id + text if text.startswith("/") else text)
    if entry is None or entry.workspace != workspace_id:
        raise ParameterError("entries_before", "must be the next_entries_before of a page")
    return entry


def _make_use_tables(reading: Reading, workspace_id: str, time: TimeRange) -> Mapping[str, Table]:
    wanted = Filter(workspace_id, since=time.since, until=time.filter_until)
    step = "hour" if time.length.days <= _LONGEST_BY_HOUR_DAYS else "day"
    return {
        "totals": find_totals(reading.ledger, "workspace", wanted, None),
        "spend": find_totals(reading.ledger, step, wanted, None),
        "models": find_totals(reading.ledger, "model", wanted, TOP_MODELS),
        "refusals": find_refusals(reading.ledger, wanted, None),
    }


def _describe_problem(problem: Problem | None) -> Mapping[str, Any]:
    if problem is None:
        return {"file_fault": None}
    return {"file": str(problem.file), "file_fault": mask_credentials(f"{problem.consequence}: {problem}")}


def _make_warnings(reading: Reading, workspace: Workspace | None) -> Table:
    found = find_workspace_warnings(reading.settings, [workspace] if workspace else [], reading.now)
    return Table(("kind", "key", "reason"), [(one.kind, one.key, one.reason) for one in found])
