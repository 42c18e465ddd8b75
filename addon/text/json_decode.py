"""The strict decoder of a client's JSON object: the result means the same to every later reader. Pure.

It refuses text that readers understand in different ways: a repeated key, NaN, half a surrogate pair. It also refuses
text that makes them fail: great depth, endless numbers. Messages never echo the body. A key in them is masked and
short.
"""

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

import msgspec
from pydantic_core import from_json

from addon.text.json_scan import (
    LARGE_STRING_BYTES,
    MAX_DEPTH,
    MAX_VALUES,
    Scan,
    TooDeepError,
    TooManyValuesError,
    count_members,
    scan,
)
from addon.text.large_strings import LargeStrings
from addon.text.masking import mask_credentials
from policies.refusal import Refusal

MAX_NAMED_BYTES = 1 << 20
"""In a larger body, the message about a repeated key does not name it: only a slower parser finds the name."""
_MAX_NAME_CHARS = 64
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_NOT_A_NUMBER = re.compile(rb"NaN|Infinity")
_parse = msgspec.json.Decoder().decode
_POSITION = re.compile(r" at line ([0-9]{1,9}) column ([0-9]{1,9})")


def decode_object(body: bytes) -> dict[str, Any]:
    """Return ``body`` decoded as an object. Raises ``Refusal`` ``validation_failed`` for anything else."""
    _check_encoding(body)
    return _decode(body, _scan(body), None)


def decode_large_object(body: bytes) -> tuple[dict[str, Any], LargeStrings | None]:
    """Decode as ``decode_object``, with ``LargeText`` for long strings. The second value puts them back into JSON."""
    if len(body) < LARGE_STRING_BYTES and (plain := _decode_small(body)) is not None:
        return plain, None
    _check_encoding(body)
    found = _scan(body)
    large = LargeStrings(body, found.large) if found.large else None
    return _decode(body, found, large), large


def _decode_small(body: bytes) -> dict[str, Any] | None:
    """Return the object in a small body, or None for a body that may break a rule: the whole decoder explains which.

    A body of this size has no long string and not too many values. The parser refuses what the whole decoder refuses,
    except for depth and repeated keys.
    """
    try:
        members = count_members(body)
        root = _parse(body)
    except (msgspec.DecodeError, ValueError):
        return None
    if type(root) is not dict:
        return None
    nodes: list[Any] = [root]
    for node in nodes:
        if type(node) is dict:
            members -= len(node)
            node = node.values()
        nodes += [value for value in node if type(value) is dict or type(value) is list]
    return None if members else root


def _decode(body: bytes, found: Scan, large: LargeStrings | None) -> dict[str, Any]:
    text = large.skeleton() if large else body
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise _unreadable(body, text, large, str(error)) from None
    if not isinstance(value, dict):
        raise _refusal("The request body must be a JSON object.")
    try:
        members = _Members(large).read(value)
    except ValueError as error:
        raise _unreadable(body, b"", None, str(error)) from None
    if members != found.members:
        raise _repeated_key(text)
    return value


def _check_encoding(body: bytes) -> None:
    if not body or not body.strip(b" \t\r\n"):
        raise _refusal("The request body is empty.")
    if body.startswith(b"\xef\xbb\xbf"):
        raise _refusal("The request body starts with a byte order mark; send plain UTF-8 without one.")
    if b"\0" in body[:4]:
        raise _refusal("The request body is not UTF-8 text (it looks like UTF-16 or UTF-32).")


def _scan(body: bytes) -> Scan:
    try:
        return scan(body)
    except UnicodeDecodeError as error:
        raise _refusal(f"The request body is not valid UTF-8 (at byte {error.start}).") from None
    except TooDeepError:
        raise _refusal(f"The request body is nested deeper than {MAX_DEPTH} levels.") from None
    except TooManyValuesError:
        raise _refusal(f"The request body holds more than {MAX_VALUES:,} values.") from None


class _Members:
    """One pass over a parsed tree: it counts the members of objects, and puts long texts in their places."""

    def __init__(self, large: LargeStrings | None) -> None:
        self._large = large

    def read(self, root: dict[str, Any]) -> int:
        """Return the number of members. Raises Refusal for a number that is too large for a float."""
        members = 0
        waiting: list[dict[str, Any] | list[Any]] = [root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, dict):
                members += len(node)
                items: Any = node.items()
            else:
                items = enumerate(node)
            for key, value in items:
                kind = type(value)
                if kind is dict or kind is list:
                    waiting.append(value)
                elif kind is float:
                    if math.isinf(value):
                        raise _refusal("The request body contains a number that is too large.")
                elif kind is str and self._large and (text := self._large.find(value)) is not None:
                    node[key] = text
        return members


def _unreadable(body: bytes, text: bytes, large: LargeStrings | None, fault: str) -> Refusal:
    """Return the refusal of a text that the parser could not read."""
    if "number out of range" in fault:
        return _refusal("The request body contains an integer with too many digits.")
    place = _POSITION.search(fault)
    line, column = (int(place[1]), int(place[2])) if place else (1, 1)
    at = _offset(text, line, column)
    if ("hex escape" in fault or "surrogate" in fault) and (
        not text or _SURROGATE_ESCAPE.search(text[max(0, at - 12) : at + 12])
    ):
        return _refusal("The request body contains half of a surrogate pair, which is not a character.")
    if _NOT_A_NUMBER.search(text[max(0, at - 9) : at + 9]):
        return _refusal("The request body contains NaN or Infinity, which JSON does not have.")
    if not text:
        return _refusal("The request body is not valid JSON (inside a long string).")
    if large:
        at = large.offset(at)
        column = at - body.rfind(b"\n", 0, at)
    return _refusal(f"The request body is not valid JSON (at line {line}, column {max(1, column)}).")


def _offset(text: bytes, line: int, column: int) -> int:
    """Return the offset of a position of the parser, which counts lines and bytes from 1."""
    start = 0
    for _ in range(line - 1):
        start = text.find(b"\n", start) + 1
    return start + max(0, column - 1)


def _repeated_key(text: bytes) -> Refusal:
    if len(text) <= MAX_NAMED_BYTES:
        json.loads(text, object_pairs_hook=_unique)
    return _refusal("A key appears more than once in one object of the request body.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        _refuse_repeated([key for key, _ in pairs])
    return found


def _refuse_repeated(keys: list[str]) -> NoReturn:
    repeated = next(key for key, times in Counter(keys).items() if times > 1)
    raise _refusal(f'The key "{_name(repeated)}" appears more than once in one object of the request body.')


def _name(key: str) -> str:
    shown = mask_credentials(key.encode("utf-8", "replace").decode())
    return shown if len(shown) <= _MAX_NAME_CHARS else shown[:_MAX_NAME_CHARS] + "…"


def _refusal(message: str) -> Refusal:
    return Refusal("validation_failed", message)
