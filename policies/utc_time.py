"""The format of times in the ledger and in the log: UTC, to the millisecond ("2026-11-21T09:30:00.000+00:00")."""

from datetime import UTC, datetime

from msgspec import to_builtins


def format_utc(moment: datetime) -> str:
    """Return an aware time as text. As ``datetime.isoformat``, in a third of its time: a call has four times."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return f"{to_builtins(moment)[:19]}.{moment.microsecond // 1000:03d}+00:00"
