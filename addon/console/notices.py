"""Sentences above each page: why no calls are served, and why pages take long."""

from datetime import datetime

from addon.console.view import Reading
from addon.store.money.ledger import Ledger
from addon.store.money.sums.rollups import read_progress
from addon.telemetry.admin import Readiness
from addon.text.masking import mask_credentials

_NEEDED = ("store", "drain", "workers")
"""The checks of ``/readyz`` that keep calls away."""


def find_notices(reading: Reading) -> list[str]:
    """Return the notices of a page."""
    refused = find_refusal(reading.live.readiness)
    found = [refused] if refused else []
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


def find_sums_begin(ledger: Ledger, now: datetime) -> str | None:
    """Return the moment before which calls are not in the small sums yet. None when all of them are."""
    moment = read_progress(ledger).built_from
    return min(moment, now.isoformat())[:16].replace("T", " ") if moment else None
