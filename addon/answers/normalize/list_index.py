"""The rule for lists that a stream sends bit by bit, its choices included: each element has an index. Pure.

OpenAI's SDK can't join other elements. An element without an index is a new one (recordings of OpenRouter:
``annotations``, and ``reasoning_details`` of Gemini).
Source: OpenAI's Python SDK, ``lib/streaming/_deltas.py``.
"""

from typing import Any

from addon.answers.normalize.edits import keep_if_same, with_member
from addon.text.json_edits import Edit, members, prepend_edit

LISTS = frozenset({"annotations", "reasoning_details"})


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


def number_edits(payload: bytes) -> list[Edit]:
    """Return the edit that gives the only choice of the JSON ``payload`` the index 0."""
    chars = payload.decode("latin-1")
    choices = members(chars, chars.index("{"), "choices")[-1]
    start = members(chars, choices.start)[0].start
    known = [(one.start, one.end, b"0") for one in members(chars, start, "index")]
    return known[-1:] or [prepend_edit(payload, start, "index", b"0")]
