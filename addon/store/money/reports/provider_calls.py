"""The calls of one provider with keys of the platform, for the comparison with its invoice. Source: docs/ledger.md."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from addon.store.money.ledger import Ledger, find_columns
from addon.store.money.reports.archived_calls import in_no_file
from addon.store.money.reports.report import has_table
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


def select_failed_attempts(
    ledger: Ledger, provider: str, since: datetime, until: datetime
) -> Iterator[tuple[str, str, int | None]]:
    """Yield each failed attempt that is not the one of its call's row: when its call began, its place and its key."""
    if not has_table(ledger, "attempts"):
        return
    sql = f"""
        SELECT attempts.created_at, attempts.deployment, attempts.platform_key FROM attempts JOIN (
            SELECT id, CASE WHEN {_IS_OF_FIRST} THEN 1 ELSE attempts END AS own FROM usage
            WHERE created_at >= ? AND created_at < ? AND attempts > 1{in_no_file(ledger)}
        ) AS call ON call.id = attempts.call_id
        WHERE attempts.created_at >= ? AND attempts.created_at < ? AND attempts.provider = ?
            AND attempts.mode = 'payg' AND attempts.error_code IS NOT NULL AND attempts.number <> call.own
    """  # noqa: S608
    time = (format_utc(since), format_utc(until))
    yield from ledger.execute(sql, (*time, *time, provider))


# Of several failed attempts the row is of the first, unless the client had a part of a later answer, or left.
_IS_OF_FIRST: Final = "status >= 400 AND status <> 499 AND first_byte_ms IS NULL"


def select_fallbacks(ledger: Ledger, since: datetime, until: datetime) -> Iterator[tuple[str, str, str]]:
    """Yield when each call began that a fallback answered after another attempt, its asked model, and its slug.

    A call whose attempts are kept is left out.
    """
    unknown = "AND id NOT IN (SELECT call_id FROM attempts)" if has_table(ledger, "attempts") else ""
    sql = f"""
        SELECT created_at, requested_model, model_slug FROM usage
        WHERE created_at >= ? AND created_at < ? AND fallback = 1 AND attempts = 2 AND requested_model IS NOT NULL
        {unknown}{in_no_file(ledger)}
    """  # noqa: S608
    yield from ledger.execute(sql, (format_utc(since), format_utc(until)))


def select_kept(ledger: Ledger, columns: Sequence[str]) -> str:
    """Return what selects ``columns`` of ``usage``, NULL for one that the ledger does not keep."""
    kept = find_columns(ledger, "usage")
    return ", ".join(name if name in kept else "NULL" for name in columns)
