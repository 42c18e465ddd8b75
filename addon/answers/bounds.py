"""Bounds of every provider's answer, whole or streamed. Pure."""

import json
from collections.abc import Mapping

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


class BoundExceededError(Exception):
    """A text exceeds a bound; ``failure`` says which."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.failure = unreadable_answer(reason)


class TooManyChoicesError(ValueError):
    """A stream began more choices than ``MAX_CHOICES``."""


def parse_bounded(text: bytes, max_values: int = MAX_VALUES) -> object:
    """Parse ``text`` as JSON. Raises ValueError, or BoundExceededError before anything is parsed."""
    if len(text) > SMALL_BYTES or text.count(b"[") + text.count(b"{") > MAX_DEPTH:
        _check_structure(text, max_values)
    if len(text) <= SMALL_BYTES:
        try:
            return _decode(text)
        except ValueError:
            # Only the standard library reads NaN, a float out of range, and half a surrogate pair.
            return json.loads(text.decode())
    try:
        return from_json(text)
    except ValueError:
        # Some providers write half a surrogate pair, which only the standard library reads.
        if b"\\u" not in text:
            raise
        return json.loads(text)


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
    """Raise ``TooManyChoicesError`` when a stream that has ``begun`` choices may not begin another."""
    if begun >= MAX_CHOICES:
        raise TooManyChoicesError
