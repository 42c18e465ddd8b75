"""The calls of one provider with keys of the platform, for the comparison with its invoice. Source: docs/ledger.md."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from addon.store.money.ledger import Ledger, find_columns
from addon.store.money.reports.archived_calls import in_no_file
from policies.utc_time import format_utc


def select_provider_calls(
    ledger: Ledger, provider: str, since: datetime, until: datetime, columns: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield ``columns`` of each call that began in a time, in order. A column that the ledger does not keep is None."""
    sql = f"""
        SELECT {select_kept(ledger, columns)} FROM usage
        WHERE created_at >= ? AND created_at < ? AND provider = ? AND mode = 'payg'{in_no_file(ledger)}
        ORDER BY created_at
    """  # noqa: S608
    yield from ledger.execute(sql, (format_utc(since), format_utc(until), provider))


def select_fallbacks(ledger: Ledger, since: datetime, until: datetime) -> Iterator[tuple[str, str, str]]:
    """Yield when each call began that a fallback answered after another attempt, its asked model, and its slug."""
    sql = f"""
        SELECT created_at, requested_model, model_slug FROM usage
        WHERE created_at >= ? AND created_at < ? AND fallback = 1 AND attempts = 2 AND requested_model IS NOT NULL
        {in_no_file(ledger)}
    """  # noqa: S608
    yield from ledger.execute(sql, (format_utc(since), format_utc(until)))


def select_kept(ledger: Ledger, columns: Sequence[str]) -> str:
    """Return what selects ``columns`` of ``usage``, NULL for one that the ledger does not keep."""
    kept = find_columns(ledger, "usage")
    return ", ".join(name if name in kept else "NULL" for name in columns)
