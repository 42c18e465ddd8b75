"""The sentence that a provider meant, found in whatever error body it sent.

Providers wrap it as a string, an object, a list, FastAPI's ``detail``, Apigee's ``fault``, JSON inside a string, a
page of HTML, or plain text. The answer is one sentence, never a dump, or None where there is none. Pure.
"""

import html
import json
import re
from typing import Any, NamedTuple

# A longer error body is not read: no provider explains itself in a megabyte.
MAX_READ_BYTES = 1 << 20
MAX_DEPTH = 8
MAX_LISTED = 20
_OTHER_KEYS = ("msg", "faultstring", "detail", "fault", "error_description", "errors", "details")
# No expression sees more of a text than this; ``errors`` shows far less.
MAX_SENTENCE_CHARS = 65_536
# Fewer than the digits of a character reference that Python refuses to read.
MAX_TITLE_CHARS = 2_000
# What Google's servers write around the sentence where they show one for programmers.
_DEBUG_OPENING = re.compile(r"\[ORIGINAL ERROR\] (?:generic::\w{1,64}: )?")
_DEBUG_DETAILS = "[google.rpc.error_details_ext]"


class Found(NamedTuple):
    """A message as the provider wrote it, and the request field that it blames, where it names one."""

    message: str
    param: str | None = None


def read_body(body: bytes) -> Found | None:
    """Find the message in a body as it came; a body longer than ``MAX_READ_BYTES`` is not read."""
    if len(body) > MAX_READ_BYTES:
        return None
    text = body.decode("utf-8-sig", "replace").strip()
    if re.match(r"<[a-z!?]", text, re.IGNORECASE):
        title = re.search(r"<title[^<>]*>([^<]*)</title", text[:MAX_SENTENCE_CHARS], re.IGNORECASE)
        return Found(html.unescape(title[1][:MAX_TITLE_CHARS])) if title else None
    found = read_payload(text)
    return None if found is None or "\ufffd" in found.message else found


def read_payload(value: Any, depth: int = 0) -> Found | None:
    """Find the message in a decoded value. Depth is bounded, so that no body is too deep to be answered."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, str):
        return _read_text(value, depth)
    if isinstance(value, list):
        return _read_list(value, depth)
    return _read_object(value, depth) if isinstance(value, dict) else None


def _read_text(text: str, depth: int) -> Found | None:
    """Read JSON that stands in a string, alone or (as ``{"error": …}``) after other words; else the text itself."""
    text = text.strip()
    inner = _json_in(text)
    found = None if inner is None else read_payload(inner, depth + 1)
    if found or inner is not None:
        return found
    sentence = _without_debug_frame(text[:MAX_SENTENCE_CHARS])
    return Found(sentence) if _is_sentence(sentence) else None


def _without_debug_frame(text: str) -> str:
    opening = _DEBUG_OPENING.match(text)
    return text[opening.end() if opening else 0 :].partition(_DEBUG_DETAILS)[0].rstrip()


def _json_in(text: str) -> Any:
    """Return the JSON value that ``text`` is, or the error object that it bears, or None."""
    bearing = re.search(r'\{\s*"(?:error"|type"\s*:\s*"error")', text[:MAX_SENTENCE_CHARS])
    start = 0 if text.startswith(("{", "[", '"')) else bearing.start() if bearing else None
    if start is None:
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    # After an object anything may follow (a second one, an end of an event); `"a" is not b` is a sentence, not JSON.
    return value if isinstance(value, dict) or end == len(text) else None


def _is_sentence(text: str) -> bool:
    """Tell words from what is left of JSON that can't be read, and from what a careless program prints for nothing."""
    if text.lower() in ("null", "none", "true", "false", "undefined", "[object object]"):
        return False
    if re.fullmatch(r"\$\{?\w+\}?", text):
        return False  # the name of a template's variable, which its server forgot to fill in
    return any(map(str.isalpha, text)) and not re.match(r"\{|\[\s*[^\sA-Za-z]", text)


def _read_list(items: list[Any], depth: int) -> Found | None:
    found = [one for item in items[:MAX_LISTED] if (one := read_payload(item, depth + 1))]
    if not found:
        return None
    return Found("; ".join(one.message for one in found), found[0].param)


def _read_object(node: dict[str, Any], depth: int) -> Found | None:
    found = _read_any(_candidates(node), depth)
    if found is None:
        return None
    message, param = found
    where = node.get("loc")
    if isinstance(where, list) and "msg" in node:
        # The convention of FastAPI: {"loc": ["body", "messages", 0], "msg": "Input should be …"}.
        message = f"{'.'.join(str(part) for part in where if part != 'body')}: {message}"
    own_param = node.get("param")
    return Found(message, param or (own_param if isinstance(own_param, str) else None))


def _candidates(node: dict[str, Any]) -> list[Any]:
    """Return the places where a provider may have put its sentence, the most telling first."""
    metadata = node.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    error = node.get("error")
    wrapped = error if isinstance(error, dict | list) else None
    # Often just "Bad Request", beside a message that says more.
    phrase = error if isinstance(error, str) else None
    return [raw, wrapped, node.get("message"), phrase, *(node.get(key) for key in _OTHER_KEYS)]


def _read_any(values: list[Any], depth: int) -> Found | None:
    return next((found for value in values if value and (found := read_payload(value, depth + 1))), None)
