"""JSON as it is sent: short, and always valid UTF-8. Pure."""

from json import JSONEncoder
from typing import Any

from pydantic_core import to_json

_PLAIN = JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False, allow_nan=False)
_ESCAPED = JSONEncoder(separators=(",", ":"), check_circular=False, allow_nan=False)


def request_text(value: Any) -> bytes:
    """Return what a client's own values make as JSON, in UTF-8 without an intermediate text."""
    return to_json(value)


def json_text(value: Any) -> bytes:
    """Return ``value`` as JSON without needless white space. Half a surrogate pair stays the escape that it was.

    Raises ValueError for a number that JSON can't say: infinite, or none.
    """
    try:
        return _PLAIN.encode(value).encode()
    except UnicodeEncodeError:
        return _ESCAPED.encode(value).encode()
