"""What the values of budgets have spent in the periods of now, and what calls in flight hold of them."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from addon.store.money.ledger import NO_LIMIT, Ledger, find_columns
from addon.text.table import Table
from policies.budgets import capped_budgets, group_range, parse_scope
from policies.limits import Counter, Limit
from policies.model import Workspace

BUDGET_COLUMNS: Final = (
    "workspace",
    "budget",
    "value",
    "period",
    "spent_nanousd",
    "held_nanousd",
    "cap_nanousd",
    "left_nanousd",
    "requests",
    "requests_in_flight",
)


def find_budgets(ledger: Ledger, workspaces: Iterable[Workspace], now: datetime, most: int | None) -> Table:
    """Return the values of each budget at ``now`` (UTC), those that spent most first, at most ``most`` of each."""
    rows: list[tuple[Any, ...]] = []
    has_budgets = "budgets" in find_columns(ledger, "holds")
    for workspace in workspaces:
        if workspace.budgets and has_budgets:
            held = _read_held(ledger, workspace.id)
            for budget, cap_nanousd in capped_budgets(workspace):
                group = group_range(workspace.id, budget, now)
                rows += _find_values(ledger, group, cap_nanousd, most, held)
    return Table(BUDGET_COLUMNS, rows)


def _find_values(
    ledger: Ledger,
    group: tuple[str, str],
    cap_nanousd: int,
    most: int | None,
    held: dict[str, tuple[int, int]],
) -> Iterable[tuple[Any, ...]]:
    found = ledger.execute(_LARGEST, (*group, NO_LIMIT if most is None else most))
    for scope, spent_nanousd, requests in found.fetchall():
        held_nanousd, in_flight = held.get(scope, (0, 0))
        named = parse_scope(scope)
        left_nanousd = cap_nanousd - spent_nanousd - held_nanousd
        amounts = (spent_nanousd, held_nanousd, cap_nanousd, left_nanousd)
        yield named.workspace, named.budget, named.value, named.period, *amounts, requests, in_flight


def _read_held(ledger: Ledger, workspace: str) -> dict[str, tuple[int, int]]:
    return {scope: (held, calls) for scope, held, calls in ledger.execute(_HELD, (workspace,)).fetchall()}


def find_reached(ledger: Ledger, workspace: Workspace, now: datetime) -> list[tuple[Limit, int]]:
    """Return the values that have reached the first percentage of an alert, with what each has spent."""
    found = []
    for budget, cap_nanousd in capped_budgets(workspace):
        least_nanousd = -(-cap_nanousd * workspace.alert_at_percent[0] // 100)
        rows = ledger.execute(_REACHED, (*group_range(workspace.id, budget, now), least_nanousd)).fetchall()
        for scope, period, spent_nanousd in rows:
            limit = Limit("budget_cap", Counter(scope, period), cap_nanousd)
            found.append((limit, spent_nanousd))
    return found


_LARGEST: Final = """
    SELECT scope, spent_nanousd, requests FROM spend WHERE scope >= ? AND scope < ?
    ORDER BY spent_nanousd DESC, scope LIMIT ?
"""
_HELD: Final = """
    SELECT scope.value, sum(amount_nanousd), count(*) FROM holds CROSS JOIN json_each(holds.budgets) AS scope
    WHERE workspace = ? AND holds.budgets IS NOT NULL GROUP BY 1
"""
_REACHED: Final = """
    SELECT scope, period, spent_nanousd FROM spend WHERE scope >= ? AND scope < ? AND spent_nanousd >= ?
    ORDER BY scope
"""
