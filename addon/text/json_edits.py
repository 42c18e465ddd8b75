"""Edits of JSON text that leave every other byte unchanged. Pure.

Numbers keep their digits, keys their order, strings their escapes: nothing is parsed and written again. All functions
expect text that ``json.loads`` has accepted. Positions are byte offsets.
"""

import json
import re
from collections.abc import Container, Iterable, Mapping
from json.encoder import encode_basestring_ascii

import msgspec

_BETWEEN = re.compile(r"[ \t\n\r,]*+")
_KEY = re.compile(r'[ \t\n\r,]*+"([^"\\]*+(?:\\.[^"\\]*+)*+)"[ \t\n\r]*+:[ \t\n\r]*+', re.DOTALL)
# Finds the end of the value at an offset, in C. Numbers stay text, so that no number is too long.
_skip_value = json.JSONDecoder(parse_int=str, parse_float=str).scan_once  # type: ignore[attr-defined]
_MODEL = b'"model"'
_STRING_MEMBER = re.compile(rb'"model"\s*:\s*("[^"\\]*+(?:\\.[^"\\]*+)*+")', re.DOTALL)
_EMPTY_OBJECT = re.compile(rb"\{\s*\}")
_ESCAPED_LETTER = b"\\u006"  # every letter of "model" would be escaped as \u006x


type Edit = tuple[int, int, bytes]
"""Replace the bytes from the first offset up to the second by these bytes."""


class Member(msgspec.Struct, frozen=True, gc=False):
    """The place of one value in an object or array. ``key`` is empty in an array."""

    key: str
    start: int
    end: int


def apply_edits(text: bytes, edits: Iterable[Edit]) -> bytes:
    """Return ``text`` with all ``edits`` applied. They must not overlap."""
    pieces: list[bytes] = []
    position = 0
    for start, end, replacement in sorted(edits):
        pieces += (text[position:start], replacement)
        position = end
    pieces.append(text[position:])
    return b"".join(pieces)


def model_edits(text: bytes, parsed: Mapping[str, object], model: bytes, *, insert: bool) -> list[Edit]:
    """Return the edits that set every top-level ``model`` of ``text`` to the JSON value ``model``.

    ``parsed`` is the result of ``json.loads`` on ``text``. When it has no top-level model and ``insert`` is true, the
    model becomes its first member. Models inside other values, such as a tool call, stay.
    """
    if "model" not in parsed:
        return [prepend_edit(text, text.index(b"{"), "model", model)] if insert else []
    at = text.find(_MODEL)
    # When the word is there only once, and no escape can hide another, it is the key of the known member.
    only_once = text.find(_MODEL, at + 1) < 0 and _ESCAPED_LETTER not in text
    if only_once and (found := _STRING_MEMBER.match(text, at)):
        return [(found.start(1), found.end(1), model)]
    return [(m.start, m.end, model) for m in members(text, text.index(b"{"), "model")]


def prepend_edit(text: bytes, start: int, key: str, value: bytes) -> Edit:
    """Return the edit that puts ``key: value`` before the members of the object at ``start``."""
    comma = b"" if _EMPTY_OBJECT.match(text, start) else b","
    return start + 1, start + 1, encode_basestring_ascii(key).encode() + b":" + value + comma


def identity_edits(
    text: bytes, parsed: Mapping[str, object], answer_id: str, created_s: int, kind: str
) -> list[Edit]:
    """Return the edits that set the ``object`` of an answer to ``kind``, and an ``id`` and ``created`` that it lacks.

    An id that is no text, and a time that is no whole number, count as lacking.
    """
    lacking: dict[str, object] = {}
    if not (given := parsed.get("id")) or type(given) is not str:
        lacking["id"] = answer_id
    if type(created := parsed.get("created")) is not int and not is_whole_number(created):
        lacking["created"] = created_s
    if parsed.get("object") != kind:
        lacking["object"] = kind
    return [
        member_edit(text, key, json.dumps(value).encode(), known=parsed) for key, value in lacking.items()
    ]


def is_whole_number(value: object) -> bool:
    """Return whether a JSON value is a whole number, such as 7 or 7e0."""
    return type(value) is int or (type(value) is float and value.is_integer())


def member_edit(text: bytes, key: str, value: bytes, *, known: Container[str] | None = None) -> Edit:
    """Return the edit that sets the top-level ``key`` of ``text`` to the JSON ``value``, or adds it.

    ``known`` are the keys of ``text``, if the caller knows them.
    """
    at = text.index(b"{")
    found = members(text, at, key) if known is None or key in known else []
    return (found[-1].start, found[-1].end, value) if found else prepend_edit(text, at, key, value)


def value_edit(text: bytes, key: str, value: bytes) -> Edit:
    """Return the edit that sets the top-level ``key`` of ``text`` to the JSON ``value``.

    It changes the last member of that name, which is the one that readers keep. Raises IndexError when there is none.
    """
    found = members(text, text.index(b"{"), key)[-1]
    return found.start, found.end, value


def members(text: bytes | str, start: int, key: str | None = None) -> list[Member]:
    """Return the members of the object or array at ``start``, in order, with duplicates. Any other value has none.

    With ``key``, return only the members of that name. Text is decoded as latin-1: each byte is one character, so the
    offsets are the same. A caller that asks many times decodes it once.
    """
    chars = text if isinstance(text, str) else text.decode("latin-1")
    if chars[start] == "[":
        return _elements(chars, start + 1)
    found: list[Member] = []
    at = start + 1
    while chars[start] == "{" and (opening := _KEY.match(chars, at)):
        name = opening[1]
        if "\\" in name or not name.isascii():
            name = json.loads(f'"{name}"'.encode("latin-1"))
        value_at = opening.end()
        _, at = _skip_value(chars, value_at)
        if key is None or name == key:
            found.append(Member(name, value_at, at))
    return found


def _elements(chars: str, at: int) -> list[Member]:
    found: list[Member] = []
    while (begin := _BETWEEN.match(chars, at)) and chars[begin.end()] != "]":
        _, at = _skip_value(chars, begin.end())
        found.append(Member("", begin.end(), at))
    return found
