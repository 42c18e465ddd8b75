"""Reads how long a vendor's quota is used up from the headers of its answer. Pure.

| vendor | remaining | reset |
|---|---|---|
| OpenAI, Groq and most others | a number | a duration: ``6m0s``, ``1.5s``, ``20ms`` |
| Azure, Cerebras | a number, -1 where there is no quota | seconds |
| Anthropic | a number | a time of RFC 3339 |

Source: OpenAI, "Rate limits"; Anthropic, "Rate limits", response headers; Cerebras, "Rate limits"; recorded answers.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

MAX_REST_S: Final = 600.0
"""The longest rest that headers cause. A quota of a day is tried again before it is over."""
_MAX_CHARS: Final = 40
_WHOLE = re.compile(r"[0-9]{1,18}")
_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?")
_DURATION = re.compile(
    r"(?:(?P<d>[0-9]{1,4})d)?(?:(?P<h>[0-9]{1,5})h)?(?:(?P<m>[0-9]{1,6})m(?!s))?"
    r"(?:(?P<s>[0-9]{1,8}(?:\.[0-9]{1,12})?)s)?(?:(?P<ms>[0-9]{1,9}(?:\.[0-9]{1,12})?)ms)?"
)
_UNIT_S: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def parse_reset_s(text: str, now: datetime) -> float | None:
    """Return in how many seconds a quota begins again, None for a text that does not say it."""
    text = text.strip()
    if not text or len(text) > _MAX_CHARS:
        return None
    if _SECONDS.fullmatch(text):
        return float(text)
    if found := _DURATION.fullmatch(text):
        return sum(float(value) * _UNIT_S[unit] for unit, value in found.groupdict().items() if value)
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        return None
    return max(0.0, ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds())


def find_rest_s(
    headers: Mapping[str, str], pairs: Iterable[tuple[str, str]], least: int, now: datetime
) -> float | None:
    """Return for how long less than ``least`` remains, at most ``MAX_REST_S``; None where enough remains.

    ``pairs`` are the names of the headers: what remains, and when it begins again.
    """
    rests = [
        rest_s
        for remaining, reset in pairs
        if _is_below(headers.get(remaining), least)
        and (rest_s := parse_reset_s(headers.get(reset, ""), now)) is not None
    ]
    return min(max(rests), MAX_REST_S) if rests else None


def _is_below(text: str | None, least: int) -> bool:
    # A negative number stands for no quota.
    return text is not None and _WHOLE.fullmatch(text.strip()) is not None and int(text) < least
