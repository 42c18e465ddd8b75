"""What a ``Retry-After`` header asks for, in seconds. Pure.

Source: RFC 9110, 10.2.3: a number of seconds, or a date; of fractions of seconds, which some write, all is read.
"""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

MAX_CHARS: Final = 100


def parse_retry_after(text: str | None, now: datetime) -> float | None:
    """Return how long to wait from ``now`` on; None where that is not said, or can't be read.

    It is negative for a date that has passed, and infinite for a number that is beyond all measure.
    """
    text = (text or "").strip()
    if not text or len(text) > MAX_CHARS:
        return None
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return float(text)
    try:
        then = parsedate_to_datetime(text)
        # A date of HTTP is always of Greenwich, whether or not it says so.
        return ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds()
    except (ValueError, OverflowError):
        return None
