"""Changes to JSON text that leave every byte outside them as it was.

Numbers keep their digits, keys their order, strings their escapes: nothing is ever parsed and written again.
All functions expect text that ``json.loads`` has accepted; positions are byte offsets. Pure.
"""

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import NamedTuple

# A string is always closed; that its end may be missing keeps a search from beginning again inside one that is not.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+|[\[{\]}:,]|[^\s"\[{\]}:,]++', re.DOTALL)
_MODEL = b'"model"'
_STRING_MEMBER = re.compile(rb'"model"\s*:\s*("[^"\\]*+(?:\\.[^"\\]*+)*+")', re.DOTALL)
_EMPTY_OBJECT = re.compile(rb"\{\s*\}")
_ESCAPED_LETTER = b"\\u006"  # every letter of "model" would be escaped as \u006x


type Edit = tuple[int, int, bytes]
"""Put these bytes in place of those from the first offset up to the second."""


class Member(NamedTuple):
    """One value inside an object or array, and where it stands; an array's values have an empty ``key``."""

    key: str
    start: int
    end: int


def apply_edits(text: bytes, edits: Iterable[Edit]) -> bytes:
    """Return ``text`` with all ``edits`` made; they must not overlap."""
    pieces: list[bytes] = []
    position = 0
    for start, end, replacement in sorted(edits):
        pieces += (text[position:start], replacement)
        position = end
    pieces.append(text[position:])
    return b"".join(pieces)


def model_edits(text: bytes, parsed: Mapping[str, object], model: bytes, *, insert: bool) -> list[Edit]:
    """Return the edits that make every top-level ``model`` of ``text`` the JSON value ``model``.

    ``parsed`` is what ``json.loads`` made of ``text``. Where it has no top-level model and ``insert`` is
    true, one becomes its first member. Models further inside, such as in a tool call, stay.
    """
    if "model" not in parsed:
        return [first_member(text, text.index(b"{"), "model", model)] if insert else []
    at = text.find(_MODEL)
    # Where the word stands only once, and can't be hidden by escapes, that is the member known to be there.
    only_once = text.find(_MODEL, at + 1) < 0 and _ESCAPED_LETTER not in text
    if only_once and (found := _STRING_MEMBER.match(text, at)):
        return [(found.start(1), found.end(1), model)]
    return [(m.start, m.end, model) for m in members(text, text.index(b"{")) if m.key == "model"]


def first_member(text: bytes, start: int, key: str, value: bytes) -> Edit:
    """Return the edit that puts ``key: value`` before the members of the object that begins at ``start``."""
    comma = b"" if _EMPTY_OBJECT.match(text, start) else b","
    return start + 1, start + 1, json.dumps(key).encode() + b":" + value + comma


def identity_edits(
    text: bytes, parsed: Mapping[str, object], answer_id: str, created_s: int, kind: str
) -> list[Edit]:
    """Return the edits that make the ``object`` of an answer ``kind``, and fill in a missing ``id`` and ``created``."""
    lacking: dict[str, object] = {}
    if not parsed.get("id"):
        lacking["id"] = answer_id
    if parsed.get("created") is None:
        lacking["created"] = created_s
    if parsed.get("object") != kind:
        lacking["object"] = kind
    return [
        member_edit(text, key, json.dumps(value).encode(), known=parsed) for key, value in lacking.items()
    ]


def member_edit(text: bytes, key: str, value: bytes, *, known: Container[str] | None = None) -> Edit:
    """Return the edit that makes the top-level ``key`` of ``text`` the JSON ``value``, whether it is there or not.

    ``known`` are the keys of ``text``, where they have been read.
    """
    known = {member.key for member in members(text, text.index(b"{"))} if known is None else known
    return value_edit(text, key, value) if key in known else first_member(text, text.index(b"{"), key, value)


def value_edit(text: bytes, key: str, value: bytes) -> Edit:
    """Return the edit that makes the top-level ``key`` of ``text`` the JSON ``value``.

    Of members of that name the last is the one that readers keep. Raises IndexError where there is none.
    """
    found = [member for member in members(text, text.index(b"{")) if member.key == key][-1]
    return found.start, found.end, value


def members(text: bytes, start: int) -> Iterator[Member]:
    """Yield the members of the object or array that begins at ``start``, in order, duplicates included."""
    depth, key, value_start, value_end = 0, "", -1, -1
    for token in _TOKEN.finditer(text, start):
        symbol = token[0]
        if depth == 1 and symbol in (b",", b"}", b"]") and value_start >= 0:
            yield Member(key, value_start, value_end)
            key, value_start = "", -1
        elif depth == 1 and symbol == b":":
            key, value_start = json.loads(text[value_start:value_end]), -1
        elif depth == 1 and value_start < 0 and symbol not in (b"]", b"}"):
            value_start = token.start()
        depth += (symbol in (b"{", b"[")) - (symbol in (b"}", b"]"))
        value_end = token.end()
        if depth == 0:
            return
