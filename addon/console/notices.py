"""Sentences above each page: why no calls are served, and why its figures are not those of all calls, or take long."""

import sqlite3
from datetime import datetime

from addon.console.view import REDIS_TIMEOUT_S, Reading
from addon.settings.conf_schema import ProxyConf
from addon.store.backends import find_ledger_place
from addon.store.money.sums.rollups import read_progress
from addon.store.protocol import StoreUnavailable
from addon.telemetry.admin import Readiness
from addon.text.masking import mask_credentials

ELSEWHERE = (
    "Calls are recorded in the ledger of another machine. The calls, sums and wallet entries here are only those of"
    " the ledger of this machine: use the console of the other one. Budgets and calls in flight are those of all."
)
UNKNOWN = "Redis can't be reached: calls may wait there that these pages do not have."

_NEEDED = ("store", "drain", "workers")
"""The checks of ``/readyz`` that keep calls away."""


def find_notices(reading: Reading) -> list[str]:
    """Return the notices of a page."""
    refused = find_refusal(reading.live.readiness)
    found = [*([refused] if refused else []), *find_place_notices(reading.settings.conf, reading.ledger)]
    if since := find_sums_begin(reading.ledger, reading.now):
        found.append(
            f"The sums of calls before {since} UTC are still being made, so pages of an earlier time take longer."
            " Figures are right."
        )
    return found


def find_refusal(readiness: Readiness) -> str | None:
    """Return why no calls are served now, None when they are."""
    if readiness.ready:
        return None
    failed = [
        f"{name}: {readiness.checks[name]}" for name in _NEEDED if readiness.checks.get(name, "ok") != "ok"
    ]
    return mask_credentials(f"The gateway serves no calls now: {'; '.join(failed)}")


def find_place_notices(conf: ProxyConf, ledger: sqlite3.Connection) -> list[str]:
    """Return why calls are not in this ledger, or not yet."""
    try:
        place = find_ledger_place(conf, ledger, REDIS_TIMEOUT_S)
    except StoreUnavailable:
        return [UNKNOWN]
    found = [] if place.is_here else [ELSEWHERE]
    if place.waiting_workspaces:
        whose = "one workspace" if place.waiting_workspaces == 1 else f"{place.waiting_workspaces} workspaces"
        found.append(f"Calls of {whose} wait in Redis to be recorded. These pages do not have them yet.")
    return found


def find_sums_begin(ledger: sqlite3.Connection, now: datetime) -> str | None:
    """Return the moment before which calls are not in the small sums yet. None when all of them are."""
    moment = read_progress(ledger).built_from
    return min(moment, now.isoformat())[:16].replace("T", " ") if moment else None
