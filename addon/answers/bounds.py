"""Bounds of every provider's answer, whole or streamed, and the strict reading of its JSON. Pure."""

import json
import re
from collections.abc import Mapping
from typing import NoReturn

import msgspec
from pydantic_core import from_json

from addon.text.errors import ErrorAnswer, unreadable_answer
from addon.text.json_scan import MAX_DEPTH, MAX_VALUES, TooDeepError, TooManyValuesError, scan

MAX_CHOICES = 1_024
"""Eight times the most that any vendor returns for one call. Each choice of a stream costs memory until its end."""

MAX_EVENT_VALUES = 50_000
"""The most JSON values in one event of a stream."""
SMALL_BYTES = 64 * 1024
"""A text up to this size is parsed without a scan: it can't hold too many values."""

TOO_MANY_CHOICES = unreadable_answer(f"it has more than {MAX_CHOICES} choices.")
_LISTS = ("choices", "candidates")
_decode = msgspec.json.Decoder().decode
MINUS_INFINITY = b"-Infinity"
# A quote after a backslash is a part of a string, so this is a key.
_LOGPROB = re.compile(rb'((?<!\\)"(?:logprob|logProbability)"\s*+:\s*+)-Infinity')


class BoundExceededError(Exception):
    """A text exceeds a bound; ``failure`` says which."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.failure = unreadable_answer(reason)


class FailedStreamError(ValueError):
    """A stream has failed by what one of its events says; ``failure`` is the reason."""

    def __init__(self, failure: ErrorAnswer) -> None:
        super().__init__(failure.message)
        self.failure = failure


def parse_bounded(text: bytes, max_values: int = MAX_VALUES) -> object:
    """Parse ``text`` as JSON. Raises ValueError, or BoundExceededError before anything is parsed.

    NaN and Infinity are not JSON. A number out of a float's range is, and is read as infinity.
    """
    if len(text) > SMALL_BYTES or text.count(b"[") + text.count(b"{") > MAX_DEPTH:
        _check_structure(text, max_values)
    if len(text) <= SMALL_BYTES:
        try:
            return _decode(text)
        except ValueError:
            # Only the standard library reads a float out of range, and half a surrogate pair.
            return json.loads(text.decode(), parse_constant=_refuse_constant)
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        # Some providers write half a surrogate pair, which only the standard library reads.
        if b"\\u" not in text:
            raise
        return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def finite_logprobs(text: bytes) -> bytes:
    """Return ``text`` with -9999.0 in place of each log-probability of -Infinity, which JSON does not have.

    Source: OpenAI, API reference, "logprobs": -9999.0 means that a token is very unlikely. vLLM sends it, too.
    """
    return _LOGPROB.sub(rb"\g<1>-9999.0", text) if MINUS_INFINITY in text else text


def _check_structure(text: bytes, max_values: int) -> None:
    try:
        scan(text, max_values)
    except TooManyValuesError:
        raise BoundExceededError(f"it has more than {max_values:,} values.") from None
    except TooDeepError:
        raise BoundExceededError(f"it is nested deeper than {MAX_DEPTH} levels.") from None


def exceeded_bound(payload: Mapping[str, object]) -> ErrorAnswer | None:
    """Return the failure of an answer, or of an event, that lists too many choices."""
    for name in _LISTS:
        listed = payload.get(name)
        if isinstance(listed, list) and len(listed) > MAX_CHOICES:
            return TOO_MANY_CHOICES
    return None


def check_choices(begun: int) -> None:
    """Raise ``FailedStreamError`` when a stream that has ``begun`` choices may not begin another."""
    if begun >= MAX_CHOICES:
        raise FailedStreamError(TOO_MANY_CHOICES)
