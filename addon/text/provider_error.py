"""Finds the error message of a provider in any error body. Pure.

Providers wrap it as a string, an object, a list, FastAPI's ``detail``, Apigee's ``fault``, JSON inside a string, a
page of HTML, or plain text. The result is one message, never a dump, or None when there is none.
"""

import html
import json
import re
from typing import Any, NamedTuple

# A longer error body is not read: no provider's message needs a megabyte.
MAX_READ_BYTES = 1 << 20
MAX_DEPTH = 8
MAX_LISTED = 20
_OTHER_KEYS = ("Message", "msg", "faultstring", "detail", "fault", "error_description", "errors", "details")
# No regular expression reads more of a text than this; ``errors`` shows far less.
MAX_SENTENCE_CHARS = 65_536
# Bounds numeric character references: Python refuses very long ones.
MAX_TITLE_CHARS = 2_000
# The frame of Google's debug messages.
_DEBUG_OPENING = re.compile(r"\[ORIGINAL ERROR\] (?:generic::\w{1,64}: )?")
_DEBUG_DETAILS = "[google.rpc.error_details_ext]"
# Words and numbers in brackets before a sentence: "[400] …", "[[tool:f]] …".
_TAGS = re.compile(r"(?:\[{1,2}[\w.:#/-]{1,100}+\]{1,2}\s*+)++")


class FoundMessage(NamedTuple):
    """A message as the provider wrote it, and the request field that it names, if any."""

    message: str
    param: str | None = None


def find_in_body(body: bytes) -> FoundMessage | None:
    """Find the message in the bytes of a body. A body longer than ``MAX_READ_BYTES`` is not read."""
    if len(body) > MAX_READ_BYTES:
        return None
    text = body.decode("utf-8-sig", "replace").strip()
    if re.match(r"<[a-z!?]", text, re.IGNORECASE):
        title = re.search(r"<title[^<>]*>([^<]*)</title", text[:MAX_SENTENCE_CHARS], re.IGNORECASE)
        return FoundMessage(html.unescape(title[1][:MAX_TITLE_CHARS])) if title else None
    found = find_in_payload(text)
    return None if found is None or "\ufffd" in found.message else found


def find_in_payload(value: Any, depth: int = 0) -> FoundMessage | None:
    """Find the message in a decoded value. The depth is bounded, so that no body exhausts the stack."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, str):
        return _read_text(value, depth)
    if isinstance(value, list):
        return _read_list(value, depth)
    return _read_object(value, depth) if isinstance(value, dict) else None


def _read_text(text: str, depth: int) -> FoundMessage | None:
    """Read JSON in a string, alone or (as ``{"error": …}``) after other words; else read the text itself."""
    text = text.strip()
    inner = _json_in(text)
    found = None if inner is None else find_in_payload(inner, depth + 1)
    if found or inner is not None:
        return found
    sentence = _without_debug_frame(text[:MAX_SENTENCE_CHARS])
    return FoundMessage(sentence) if _is_sentence(sentence) else None


def _without_debug_frame(text: str) -> str:
    opening = _DEBUG_OPENING.match(text)
    return text[opening.end() if opening else 0 :].partition(_DEBUG_DETAILS)[0].rstrip()


def _json_in(text: str) -> Any:
    """Return ``text`` parsed as JSON, or the error object in it, or None."""
    inside = re.search(r'\{\s*"(?:error"|type"\s*:\s*"error")', text[:MAX_SENTENCE_CHARS])
    starts = [0] if text.startswith(("{", "[", '"')) else []
    for start in [*starts, inside.start()] if inside else starts:
        try:
            value, end = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        # Anything may follow an object (a second one, an end of an event). But `"a" is not b` is a sentence, not JSON.
        if isinstance(value, dict) or end == len(text):
            return value
    return None


def _is_sentence(text: str) -> bool:
    """Return whether a text is words, and not a rest of broken JSON or a placeholder such as null."""
    text = "".join(filter(str.isprintable, text)).strip()  # What can't be shown is left out of a message.
    if text.lower() in ("null", "none", "true", "false", "undefined", "[object object]"):
        return False
    if re.fullmatch(r"\$\{?\w+\}?", text):
        return False  # the name of a template's variable that its server did not fill in
    words = text[tags.end() :] if (tags := _TAGS.match(text)) else text
    return any(map(str.isalpha, words or text)) and not re.match(r"\{|\[\s*[^\sA-Za-z]", words or text)


def _read_list(items: list[Any], depth: int) -> FoundMessage | None:
    found = [one for item in items[:MAX_LISTED] if (one := find_in_payload(item, depth + 1))]
    if not found:
        return None
    return FoundMessage("; ".join(one.message for one in found), found[0].param)


def _read_object(node: dict[str, Any], depth: int) -> FoundMessage | None:
    found = _read_any(_candidates(node), depth)
    if found is None:
        return None
    message, param = found
    where = node.get("loc")
    if isinstance(where, list) and "msg" in node:
        # The convention of FastAPI: {"loc": ["body", "messages", 0], "msg": "Input should be …"}.
        message = f"{'.'.join(str(part) for part in where if part != 'body')}: {message}"
    own_param = node.get("param")
    return FoundMessage(message, param or (own_param if isinstance(own_param, str) else None))


def _candidates(node: dict[str, Any]) -> list[Any]:
    """Return the values that may hold the message, the most informative first."""
    metadata = node.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    error = node.get("error")
    wrapped = error if isinstance(error, dict | list) else None
    # Often just "Bad Request", next to a message that says more.
    phrase = error if isinstance(error, str) else None
    return [raw, wrapped, node.get("message"), phrase, *(node.get(key) for key in _OTHER_KEYS)]


def _read_any(values: list[Any], depth: int) -> FoundMessage | None:
    return next((found for value in values if value and (found := find_in_payload(value, depth + 1))), None)
