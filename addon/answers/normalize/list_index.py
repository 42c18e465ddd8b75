"""The rule for lists that a stream sends bit by bit, its choices included: each element has an index. Pure.

OpenAI's SDK can't join other elements. An element without an index is a new one (recordings of OpenRouter:
``annotations``, and ``reasoning_details`` of Gemini).
Source: OpenAI's Python SDK, ``lib/streaming/_deltas.py``.
"""

import re
from collections.abc import Mapping
from typing import Any

from addon.answers.normalize.edits import keep_if_same, with_member
from addon.text.json_edits import Edit, members, prepend_edit

_DETAILS = "reasoning_details"
LISTS = frozenset({"annotations", _DETAILS})
NEXT_INDEX = b"\0"
"""What ``ListIndexes.fill_in`` replaces. No JSON has this byte."""
_NUMBER = re.compile(rb'((?:"index":)?)\d+(,?)')


class ListIndexes:
    """The lists of one choice of a stream, except its tool calls."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def number(self, delta: dict[str, Any]) -> dict[str, Any]:
        """Return ``delta`` with an index in every element of these lists."""
        for name in sorted(LISTS):
            if isinstance(elements := delta.get(name), list) and elements:
                delta = with_member(delta, name, self._numbered(name, elements))
        return delta

    def _numbered(self, name: str, elements: list[Any]) -> list[Any]:
        return keep_if_same(elements, [self._element(name, element) for element in elements])

    def _element(self, name: str, element: Any) -> Any:
        if not isinstance(element, dict):
            return element
        free = self._next.get(name, 0)
        index = element.get("index")
        if type(index) is not int:
            index, element = free, with_member(element, "index", free)
        self._next[name] = max(free, index + 1)
        return element

    def fill_in(self, events: bytes) -> bytes:
        """Return ``events`` with the index of a new detail in the place of each ``NEXT_INDEX``."""
        first, *rest = events.split(NEXT_INDEX)
        free, filled = self._next.get(_DETAILS, 0), [first]
        self._next[_DETAILS] = free + len(rest)
        for index, piece in enumerate(rest, free):
            filled += (b"%d" % index, piece)
        return b"".join(filled)


def numbers_only_detail(given: Mapping[str, Any], numbered: Mapping[str, Any]) -> bool:
    """Return whether ``ListIndexes.number`` made of ``given`` a delta whose only change is the index of one detail."""
    details = given.get(_DETAILS)
    is_single = isinstance(details, list) and len(details) == 1 and details is not numbered[_DETAILS]
    return is_single and given.get("annotations") is numbered.get("annotations")


def detail_edit(payload: bytes, start: int, delta: Mapping[str, Any]) -> Edit:
    """Return the edit that gives the only detail of the delta at ``start`` the index that it has in ``delta``."""
    chars = payload.decode("latin-1")
    (detail,) = members(chars, members(chars, start, _DETAILS)[-1].start)
    index = b"%d" % delta[_DETAILS][0]["index"]
    known = members(chars, detail.start, "index")
    return (
        (known[-1].start, known[-1].end, index)
        if known
        else prepend_edit(payload, detail.start, "index", index)
    )


def with_next_index(edit: Edit) -> Edit | None:
    """Return a ``detail_edit`` with ``NEXT_INDEX`` in the place of its number, or None for any other edit."""
    found = _NUMBER.fullmatch(edit[2])
    return (*edit[:2], found[1] + NEXT_INDEX + found[2]) if found else None


def number_edits(payload: bytes) -> list[Edit]:
    """Return the edit that gives the only choice of the JSON ``payload`` the index 0."""
    chars = payload.decode("latin-1")
    choices = members(chars, chars.index("{"), "choices")[-1]
    start = members(chars, choices.start)[0].start
    known = [(one.start, one.end, b"0") for one in members(chars, start, "index")]
    return known[-1:] or [prepend_edit(payload, start, "index", b"0")]
