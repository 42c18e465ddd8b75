"""The budgets on the front page: those that run out first, and the moment at which they do at this rate."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from addon.console.view import Reading
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.figures import KeyUse, read_key_uses
from addon.store.money.reports.report import ReadUsed, find_limits_of
from addon.store.money.reports.wallet_credits import find_last_credits
from addon.store.money.sums.rollups import HOUR_DIGITS
from addon.text.table import Table
from policies.budget_forecast import WINDOW, Use, forecast
from policies.limits import EVER, Counter, Limit, key_scope
from policies.utc_time import format_utc

COLUMNS: Final = (
    "workspace",
    "key_id",
    "limit",
    "period",
    "used_nanousd",
    "held_nanousd",
    "cap_nanousd",
    "left_nanousd",
    "requests",
    "requests_in_flight",
    "request_cap",
    "requests_left",
    "used_share",
    "outlook",
    "ends_at",
)
SHOWN: Final = 10
"""How many budgets the page shows."""


def load_budgets(reading: Reading, read_used: ReadUsed, wanted: Filter) -> Table:
    """Return the budgets that run out first. Of a wallet, the used part is that of its last credit."""
    workspaces = reading.settings.workspaces.values()
    credits = find_last_credits(reading.ledger, [one.id for one in workspaces])
    limits = find_limits_of(read_used, workspaces, wanted, reading.now, credits).records()
    if not limits:
        return Table(COLUMNS, [])
    since = format_utc((reading.now - WINDOW).replace(minute=0, second=0, microsecond=0))
    of_keys = _read_uses(reading, read_used, since[:HOUR_DIGITS], wanted.workspace)
    of_workspaces = _sum_by_workspace(of_keys)
    rows = []
    for limit in limits:
        workspace, key_id = limit["workspace"], limit["key_id"]
        used = of_workspaces.get(workspace) if key_id is None else of_keys.get((workspace, key_id))
        if limit["limit"] == "wallet" and workspace not in credits:
            continue  # As in alerts: a wallet that never had a credit has nothing to run out of.
        rows.append(_make_row(limit, used, reading.now))
    rows.sort(key=_rank)
    return Table(COLUMNS, [[row[name] for name in COLUMNS] for row in rows[:SHOWN]])


def _read_uses(
    reading: Reading, read_used: ReadUsed, first_hour: str, workspace: str | None
) -> Mapping[tuple[str, str], KeyUse]:
    """Return what each key used from an hour on. A key with earlier calls has used it since that hour."""
    uses = read_key_uses(reading.ledger, first_hour, workspace)
    for (name, key_id), used in uses.items():
        if used.first_hour > first_hour:
            ever = Limit("request_cap", Counter(key_scope(name, key_id), EVER), 0)
            if read_used(ever, name, key_id).requests > used.calls:
                uses[name, key_id] = used._replace(first_hour=first_hour)
    return uses


def _make_row(limit: Mapping[str, Any], used: KeyUse | None, now: datetime) -> dict[str, Any]:
    """Return a limit with what is used of it, and its outlook."""
    row = {**limit, "used_nanousd": limit["spent_nanousd"]}
    is_of_calls = limit["limit"] == "request_cap"
    left, cap = (
        (limit["requests_left"], limit["request_cap"])
        if is_of_calls
        else (limit["left_nanousd"], row["cap_nanousd"])
    )
    found = forecast(left, _use_of(used, is_of_calls=is_of_calls), limit["period"], now)
    ends_at = found.ends_at and format_utc(found.ends_at)
    share = min(max((cap - left) / cap, 0), 1) if cap > 0 else 1
    return row | {"used_share": share, "outlook": found.outlook, "ends_at": ends_at}


def _use_of(used: KeyUse | None, *, is_of_calls: bool) -> Use | None:
    if used is None:
        return None
    since = datetime.fromisoformat(f"{used.first_hour}:00").replace(tzinfo=UTC)
    return Use(used.calls if is_of_calls else used.retail_nanousd, since)


def _sum_by_workspace(of_keys: Mapping[tuple[str, str], KeyUse]) -> dict[str, KeyUse]:
    sums: dict[str, KeyUse] = {}
    for (workspace, _), used in of_keys.items():
        sums[workspace] = _add(sums[workspace], used) if workspace in sums else used
    return sums


def _add(one: KeyUse, other: KeyUse) -> KeyUse:
    sums = (left + right for left, right in zip(one[1:], other[1:], strict=True))
    return KeyUse(min(one.first_hour, other.first_hour), *sums)


def _rank(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the sort key of a budget: used-up ones come first, then those that will run out, then the fullest."""
    ends = row["ends_at"] or "~"
    return (row["outlook"] != "used_up", ends, -row["used_share"], row["workspace"], row["key_id"] or "")
