"""The encoder of all JSON that is sent: short, and always valid UTF-8. Pure."""

from json import JSONEncoder
from typing import Any

import msgspec
from pydantic_core import to_json

_encode = msgspec.json.Encoder().encode
_PLAIN = JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False, allow_nan=False)
_ESCAPED = JSONEncoder(separators=(",", ":"), check_circular=False, allow_nan=False)


def encode_request(value: Any) -> bytes:
    """Return a client's own values as JSON in UTF-8, without an intermediate text."""
    try:
        return _encode(value)
    except TypeError:
        # A text of a kind of its own: ``LargeText``.
        return to_json(value)


def encode_json(value: Any) -> bytes:
    """Return ``value`` as JSON without white space. Half a surrogate pair stays an escape.

    Raises ValueError for infinity and NaN, which JSON does not have.
    """
    try:
        return _PLAIN.encode(value).encode()
    except UnicodeEncodeError:
        return _ESCAPED.encode(value).encode()
