"""The limits that apply to a call, in the order of their checks, and the counters that it adds to.

A counter holds the use of one scope within one period. Periods are in UTC: a day ("2026-11-21"), a week from Monday on
("2026-W47", ISO 8601), a month ("2026-11"), or "ever". A call belongs to the periods in which it arrived.
Source: contract, "402 situations" and "Limits".
"""

import math
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Literal, get_args

from msgspec import Struct

from policies.model import Key, Mode, Plan, Reset, Workspace

EVER = "ever"

LimitKind = Literal["request_cap", "spend_cap", "wallet", "monthly_spend_cap", "budget_cap"]
"""In the order of the checks. ``request_cap`` counts calls, the others nano-USD."""

LIMITS_OF_KEYS: frozenset[LimitKind] = frozenset({"request_cap", "spend_cap"})
"""The limits of one API key. The others are of its workspace, ``budget_cap`` of one user or tag in it."""


class Counter(Struct, frozen=True, gc=False):
    """The use of a scope ("key:acme/ci", "workspace:acme", "wallet:acme", or as in ``budgets``) within one period."""

    scope: str
    period: str


class Limit(Struct, frozen=True, gc=False):
    """A counter that may not exceed ``maximum``: in calls for ``request_cap``, else in nano-USD.

    The wallet's counter is the spent amount minus the credited amount, so its limit is always 0.
    """

    kind: LimitKind
    counter: Counter
    maximum: int


@lru_cache(maxsize=64)
def period_of(day: date, reset: Reset) -> str:
    """Return the name of the period of ``day`` (UTC)."""
    match reset:
        case "daily":
            return day.isoformat()
        case "weekly":
            year, week, _ = day.isocalendar()
            return f"{year}-W{week:02d}"
        case "monthly":
            return day.isoformat()[:7]
        case "never":
            return EVER


@lru_cache(maxsize=64)
def period_start(period: str) -> str:
    """Return the first UTC day of a period ("2026-W47" → "2026-11-16"). For ``EVER``, it sorts before all days."""
    if period == EVER:
        return ""
    if "W" in period:
        return date.fromisoformat(f"{period}-1").isoformat()
    return period if len(period) == len("2026-11-21") else f"{period}-01"


@lru_cache(maxsize=64)
def period_end(period: str) -> str:
    """Return the first UTC day after a period ("2026-W47" → "2026-11-23"). For ``EVER``, it sorts after all days."""
    if period == EVER:
        return "~"
    first = date.fromisoformat(period_start(period))
    if len(period) == len("2026-11"):
        return (first + timedelta(days=31)).replace(day=1).isoformat()
    return (first + timedelta(days=7 if "W" in period else 1)).isoformat()


def seconds_to_reset(period: str, now: datetime) -> int | None:
    """Return the seconds from ``now`` (UTC) to the end of ``period``, at least 1; None for ``EVER``."""
    if period == EVER:
        return None
    end = datetime.fromisoformat(period_end(period)).replace(tzinfo=UTC)
    return max(1, math.ceil((end - now).total_seconds()))


def key_scope(workspace: str, key_id: str) -> str:
    """Return the scope of one API key."""
    return f"key:{workspace}/{key_id}"


def workspace_scope(workspace: str) -> str:
    """Return the scope of a workspace's metered spend."""
    return f"workspace:{workspace}"


@lru_cache(maxsize=4096)
def wallet_counter(workspace: str) -> Counter:
    """Return the counter of the wallet. Its amount is the negative balance."""
    return Counter(f"wallet:{workspace}", EVER)


@lru_cache(maxsize=4096)
def counters_of(workspace: str, key_id: str, day: date) -> tuple[Counter, ...]:
    """Return every counter that a call of ``day`` (UTC) adds to, except the wallet's.

    A key has a counter for each kind of period, so that a change of ``spend_reset`` counts from the period's start.
    """
    key = key_scope(workspace, key_id)
    periods = tuple(Counter(key, period_of(day, reset)) for reset in get_args(Reset))
    return (*periods, Counter(workspace_scope(workspace), period_of(day, "monthly")))


def rpm_of(workspace: Workspace, standard_rpm: int, pro_rpm: int) -> int:
    """Return the workspace's requests per minute. Source: contract, "Limits"."""
    if workspace.rpm_override is not None:
        return max(workspace.rpm_override, 1)
    return pro_rpm if workspace.plan == "pro" else standard_rpm


def pays_from_wallet(plan: Plan, mode: Mode) -> bool:
    """Return whether the wallet pays for a call: a metered call of a workspace that is not Pro."""
    return mode == "payg" and plan != "pro"


def is_exposed(workspace: Workspace) -> bool:
    """Return whether the workspace's wallet pays for calls, and calls in flight can overdraw it."""
    return pays_from_wallet(workspace.plan, "payg") and not workspace.overage_protection


def limits_of(workspace: Workspace, key: Key, mode: Mode, created_at: datetime) -> tuple[Limit, ...]:
    """Return the limits of a call that arrived at ``created_at`` (UTC), in the order of the checks."""
    of_workspace = (workspace.id, workspace.plan, workspace.monthly_spend_cap_nanousd)
    of_key = (key.id, key.request_cap, key.request_reset, key.spend_cap_nanousd, key.spend_reset)
    return _limits_of_day(of_workspace, of_key, mode, created_at.date())


@lru_cache(maxsize=4096)
def _limits_of_day(
    of_workspace: tuple[str, Plan, int | None],
    of_key: tuple[str, int | None, Reset, int | None, Reset],
    mode: Mode,
    day: date,
) -> tuple[Limit, ...]:
    """As ``limits_of``, for any call of ``day``. Changed settings give other arguments, so no entry is ever stale."""
    workspace, plan, monthly_spend_cap_nanousd = of_workspace
    key, request_cap, request_reset, spend_cap_nanousd, spend_reset = of_key
    scope, limits = key_scope(workspace, key), []
    if request_cap is not None:
        limits.append(Limit("request_cap", Counter(scope, period_of(day, request_reset)), request_cap))
    if mode != "payg":
        return tuple(limits)
    if spend_cap_nanousd is not None:
        limits.append(Limit("spend_cap", Counter(scope, period_of(day, spend_reset)), spend_cap_nanousd))
    if pays_from_wallet(plan, mode):
        limits.append(Limit("wallet", wallet_counter(workspace), 0))
    if monthly_spend_cap_nanousd is not None:
        counter = Counter(workspace_scope(workspace), period_of(day, "monthly"))
        limits.append(Limit("monthly_spend_cap", counter, monthly_spend_cap_nanousd))
    return tuple(limits)
