"""What no provider's answer may exceed, whole or streamed. Pure."""

import json
from collections.abc import Mapping

from pydantic_core import from_json

from addon.text.errors import ErrorAnswer, upstream_garbage
from addon.text.json_scan import MAX_DEPTH, MAX_VALUES, TooDeepError, TooManyValuesError, scan

MAX_CHOICES = 1_024
"""Eight times what any vendor makes for one call: each choice of a stream costs memory until its end."""

MAX_EVENT_VALUES = 50_000
"""Of one event of a stream."""
SMALL_BYTES = 64 * 1024
"""A text up to here is parsed as it is: it can't hold too many values."""

TOO_MANY_CHOICES = upstream_garbage(f"it has more than {MAX_CHOICES} choices.")
_LISTS = ("choices", "candidates")


class BoundExceededError(Exception):
    """A text exceeds a bound; ``failure`` says which."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.failure = upstream_garbage(reason)


def parse_bounded(text: bytes, max_values: int = MAX_VALUES) -> object:
    """Return the JSON value that ``text`` is. Raises ValueError, or BoundExceededError before it is parsed."""
    if len(text) > SMALL_BYTES or text.count(b"[") + text.count(b"{") > MAX_DEPTH:
        _check_structure(text, max_values)
    if len(text) <= SMALL_BYTES:
        return json.loads(text.decode())
    try:
        return from_json(text)
    except ValueError:
        # Half a surrogate pair, which some providers write, is read by the standard library alone.
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


class TooManyChoicesError(ValueError):
    """A stream began more choices than ``MAX_CHOICES``."""


def exceeded_bound(payload: Mapping[str, object]) -> ErrorAnswer | None:
    """Return the failure of an answer, or of an event, that lists too many choices."""
    for name in _LISTS:
        listed = payload.get(name)
        if isinstance(listed, list) and len(listed) > MAX_CHOICES:
            return TOO_MANY_CHOICES
    return None


def check_choices(begun: int) -> None:
    """Raise ``TooManyChoicesError`` where no further choice may begin."""
    if begun >= MAX_CHOICES:
        raise TooManyChoicesError
