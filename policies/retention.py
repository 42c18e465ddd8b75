"""Which months of calls are kept, which may be archived, and what their files are called. Months are of UTC."""

import re
from datetime import datetime, timedelta
from typing import Final

SETTLED: Final = timedelta(days=1)
"""How long a month must have ended before it is archived: a call that began in it may end, or be found dead, later."""

_MONTH: Final = "[0-9]{4}-(0[1-9]|1[0-2])"


def parse_month(text: str) -> str:
    """Return the month ``text``, such as "2026-01". Raises ValueError."""
    if not re.fullmatch(_MONTH, text):
        raise ValueError(f"{text!r} is not a month such as 2026-01")
    return text


def month_of(moment: datetime | str) -> str:
    """Return the month of a moment, or of its text in the ledger."""
    return (moment if isinstance(moment, str) else moment.isoformat())[:7]


def add_months(month: str, count: int) -> str:
    """Return the month that is so many months after ``month``, or before it."""
    number = int(month[:4]) * 12 + int(month[5:]) - 1 + count
    return f"{number // 12:04d}-{number % 12 + 1:02d}"


def first_kept_month(now: datetime, keep_months: int) -> str:
    """Return the first month that is kept: so many whole months before the current one."""
    return add_months(month_of(now), -keep_months)


def find_open_month(before: str, now: datetime) -> str | None:
    """Return the first month before ``before`` that is not settled at ``now`` (UTC). None when all are."""
    first = month_of(now - SETTLED)
    return first if first < before else None


def archive_name(ledger: str, month: str) -> str:
    """Return the name of the file of a month: "tollgate-2025-11.db" of "tollgate.db"."""
    stem, dot, suffix = ledger.rpartition(".")
    return f"{stem}-{month}.{suffix}" if dot and stem else f"{ledger}-{month}"
