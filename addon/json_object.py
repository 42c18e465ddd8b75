"""A client's JSON object, decoded so that it means the same to everybody who reads it after us.

What readers disagree on (a key that appears twice, NaN, half a surrogate pair), and what makes them fall over (depth,
endless numbers), is refused here. Messages never echo the body; a key is named, masked and bounded. Pure.
"""

import json
import math
import re
from typing import Any, NoReturn

from addon.mask import mask_credentials
from policies.refusal import Refusal

MAX_DEPTH = 64
_MAX_NAME_CHARS = 64
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def decode_object(body: bytes) -> dict[str, Any]:
    """Return the object that ``body`` is. Raises ``Refusal`` ``validation_failed`` for everything else."""
    value = _parse(_decode_text(body))
    if not isinstance(value, dict):
        raise _refusal("The request body must be a JSON object.")
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        _check_depth(value)
    if _SURROGATE_ESCAPE.search(body):
        _check_surrogates(value)
    return value


def _decode_text(body: bytes) -> str:
    if not body or body.isspace():
        raise _refusal("The request body is empty.")
    if body.startswith(b"\xef\xbb\xbf"):
        raise _refusal("The request body starts with a byte order mark; send plain UTF-8 without one.")
    if b"\0" in body[:4]:
        raise _refusal("The request body is not UTF-8 text (it looks like UTF-16 or UTF-32).")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise _refusal(f"The request body is not valid UTF-8 (at byte {error.start}).") from None


def _parse(text: str) -> Any:
    try:
        return json.loads(
            text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _refusal(f"The request body is not valid JSON (at {where}).") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        # Python refuses to read an integer of more than 4,300 digits, because that takes quadratic time.
        raise _refusal("The request body contains an integer with too many digits.") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise _refusal(
                f'The key "{_name(key)}" appears more than once in one object of the request body.'
            )
        seen.add(key)
    return found


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _refusal("The request body contains a number that is too large.")
    return number


def _refuse_constant(_: str) -> NoReturn:
    raise _refusal("The request body contains NaN or Infinity, which JSON does not have.")


def _check_depth(value: Any) -> None:
    """Go down level by level: recursion would fail on just what is looked for."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise _too_deep()


def _check_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _refusal("The request body contains half of a surrogate pair, which is no character.") from None


def _name(key: str) -> str:
    shown = mask_credentials(key.encode("utf-8", "replace").decode())
    return shown if len(shown) <= _MAX_NAME_CHARS else shown[:_MAX_NAME_CHARS] + "…"


def _too_deep() -> Refusal:
    return _refusal(f"The request body is nested deeper than {MAX_DEPTH} levels.")


def _refusal(message: str) -> Refusal:
    return Refusal("validation_failed", message)
