"""Reads when a call may be repeated from a provider's headers, and writes it into the client's. Pure.

Source: RFC 9110, 10.2.3 (``Retry-After``: a number of seconds, or a date); openai-python 2.x, ``_base_client.py``
(``retry-after-ms``, ``x-should-retry``; it ignores a wait above 60 s and retries at once).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Final

from addon.text.errors import INTERNAL_ERROR, ErrorAnswer
from addon.text.http_heads import Headers

RETRY_FIELDS: Final = frozenset({"retry-after", "retry-after-ms", "x-should-retry"})
"""The headers that are read. Most answers have none of them."""
MAX_CHARS: Final = 100
MAX_SDK_WAIT_S: Final = 60
"""The longest wait that the SDKs respect."""
MAX_WAIT_S: Final = 366 * 86_400
"""The longest wait that is passed on."""

_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_WORDS: Final[Mapping[str, bool]] = MappingProxyType({"true": True, "false": False})


@dataclass(frozen=True, slots=True)
class RetryAdvice:
    """The advice of one answer's headers about another try; None when they give none."""

    after_s: int | None = None
    should_retry: bool | None = None


NO_ADVICE: Final = RetryAdvice()


def parse_retry_after(text: str | None, now: datetime) -> float | None:
    """Return how long to wait from ``now`` on, or None when ``text`` does not say it.

    The result is negative for a date in the past, and infinite for a number that is too large for a float.
    """
    text = (text or "").strip()
    if not text or len(text) > MAX_CHARS:
        return None
    if _NUMBER.fullmatch(text):
        return float(text)
    try:
        then = parsedate_to_datetime(text)
        # A date of HTTP is always in GMT, even when it does not say so.
        return ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds()
    except (ValueError, OverflowError):
        return None


def parse_retry_advice(headers: Headers | Mapping[str, str], now: datetime) -> RetryAdvice:
    """Return the advice of a provider's headers, in whole seconds from 1 on. ``retry-after-ms`` comes first."""
    milliseconds = headers.get("retry-after-ms", "").strip()
    if len(milliseconds) <= MAX_CHARS and _NUMBER.fullmatch(milliseconds):
        wait_s: float | None = float(milliseconds) / 1000
    else:
        wait_s = parse_retry_after(headers.get("retry-after"), now)
    after_s = None if wait_s is None else max(1, math.ceil(min(wait_s, MAX_WAIT_S)))
    return RetryAdvice(after_s, _WORDS.get(headers.get("x-should-retry", "").strip().lower()))


def with_advice(failure: ErrorAnswer, advice: RetryAdvice) -> ErrorAnswer:
    """Return a provider's failure with the advice of its headers. A failure of the gateway itself gets none."""
    if failure.code == INTERNAL_ERROR.code or advice == NO_ADVICE:
        return failure
    return replace(failure, retry_after_s=advice.after_s, should_retry=advice.should_retry)


def retry_headers(answer: ErrorAnswer) -> dict[str, str]:
    """Return the headers that say when to try again, as far as that is known."""
    headers = {}
    should_retry = answer.should_retry
    if answer.retry_after_s is not None:
        headers["retry-after"] = str(max(1, answer.retry_after_s))
        if answer.retry_after_s > MAX_SDK_WAIT_S:
            should_retry = False
    if should_retry is not None:
        headers["x-should-retry"] = "true" if should_retry else "false"
    return headers
