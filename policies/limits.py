"""Which limits a call stands under, in the order in which they are checked, and which counters it adds to.

A counter is what one scope used up within one period. Periods are UTC: a day ("2026-11-21"), a week from Monday on
("2026-W47", ISO 8601), a month ("2026-11"), or "ever". A call belongs to the periods in which it came in.
Source: contract, "402 situations" and "Limits".
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Literal, get_args

from policies.model import Key, Mode, Reset, Workspace

EVER = "ever"

LimitKind = Literal["request_cap", "spend_cap", "wallet", "monthly_spend_cap"]
"""In the order in which they are checked. ``request_cap`` counts calls, the others nano-USD."""

LIMITS_OF_KEYS: frozenset[LimitKind] = frozenset({"request_cap", "spend_cap"})
"""Those that one API key stands under; the others are its workspace's."""


@dataclass(frozen=True, slots=True)
class Counter:
    """What a scope ("key:acme/ci", "workspace:acme", "wallet:acme") used up within one period."""

    scope: str
    period: str


@dataclass(frozen=True, slots=True)
class Limit:
    """A counter that may not pass ``most``: calls where ``kind`` is ``request_cap``, else nano-USD.

    The wallet's counter is what was spent less what was credited, so its limit is always 0.
    """

    kind: LimitKind
    counter: Counter
    most: int


def period_of(moment: datetime, reset: Reset) -> str:
    """Return the name of the period that ``moment``, a time in UTC, lies in."""
    return _period_of(moment.date(), reset)


@lru_cache(maxsize=64)
def _period_of(day: date, reset: Reset) -> str:
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


def period_start(period: str) -> str:
    """Return the first UTC day of a period ("2026-W47" → "2026-11-16"); of ``EVER``, what sorts before all days."""
    if period == EVER:
        return ""
    if "W" in period:
        return date.fromisoformat(f"{period}-1").isoformat()
    return period if len(period) == len("2026-11-21") else f"{period}-01"


def period_end(period: str) -> str:
    """Return the first UTC day after a period ("2026-W47" → "2026-11-23"); of ``EVER``, what sorts after all days."""
    if period == EVER:
        return "~"
    first = date.fromisoformat(period_start(period))
    if len(period) == len("2026-11"):
        return (first + timedelta(days=31)).replace(day=1).isoformat()
    return (first + timedelta(days=7 if "W" in period else 1)).isoformat()


def seconds_to_reset(period: str, now: datetime) -> int | None:
    """Return in how many seconds ``period`` ends, from ``now`` (UTC) on, at least 1; None where it never does."""
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


def wallet_counter(workspace: str) -> Counter:
    """Return the counter whose amount is what the wallet lacks: its balance with the sign turned."""
    return Counter(f"wallet:{workspace}", EVER)


def counters_of(workspace: str, key_id: str, created_at: datetime) -> tuple[Counter, ...]:
    """Return every counter that a call adds to, besides the wallet's.

    All periods of a key are counted, whichever it is limited by, so that another ``spend_reset`` counts from the start.
    """
    return counters_of_day(workspace, key_id, created_at.date())


@lru_cache(maxsize=4096)
def counters_of_day(workspace: str, key_id: str, day: date) -> tuple[Counter, ...]:
    """Return what ``counters_of`` does for any call of ``day`` (UTC)."""
    key = key_scope(workspace, key_id)
    periods = tuple(Counter(key, _period_of(day, reset)) for reset in get_args(Reset))
    return (*periods, Counter(workspace_scope(workspace), _period_of(day, "monthly")))


def rpm_of(workspace: Workspace, standard_rpm: int, pro_rpm: int) -> int:
    """Return the workspace's requests per minute. Source: contract, "Limits"."""
    if workspace.rpm_override is not None:
        return max(workspace.rpm_override, 1)
    return pro_rpm if workspace.plan == "pro" else standard_rpm


def pays_from_wallet(workspace: Workspace, mode: Mode) -> bool:
    """Tell whether a call is paid from the wallet: metered calls of workspaces that are not Pro."""
    return mode == "payg" and workspace.plan != "pro"


def is_exposed(workspace: Workspace) -> bool:
    """Tell whether the workspace's wallet pays for calls, and nothing keeps those in flight from overdrawing it."""
    return pays_from_wallet(workspace, "payg") and not workspace.overage_protection


def limits_of(workspace: Workspace, key: Key, mode: Mode, created_at: datetime) -> tuple[Limit, ...]:
    """Return the limits of a call that came in at ``created_at`` (UTC), in the order in which they are checked."""
    return tuple(_limits(workspace, key, mode, created_at))


def _limits(workspace: Workspace, key: Key, mode: Mode, created_at: datetime) -> Iterator[Limit]:
    scope = key_scope(workspace.id, key.id)
    if key.request_cap is not None:
        counter = Counter(scope, period_of(created_at, key.request_reset))
        yield Limit("request_cap", counter, key.request_cap)
    if mode != "payg":
        return
    if key.spend_cap_nanousd is not None:
        counter = Counter(scope, period_of(created_at, key.spend_reset))
        yield Limit("spend_cap", counter, key.spend_cap_nanousd)
    if pays_from_wallet(workspace, mode):
        yield Limit("wallet", wallet_counter(workspace.id), 0)
    if workspace.monthly_spend_cap_nanousd is not None:
        counter = Counter(workspace_scope(workspace.id), period_of(created_at, "monthly"))
        yield Limit("monthly_spend_cap", counter, workspace.monthly_spend_cap_nanousd)
