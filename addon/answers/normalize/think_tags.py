"""Text between a leading ``<think>`` and ``</think>`` is reasoning, however the stream cuts it. Pure.

White space before the opening tag, and right after the closing one, belongs to neither text. A closing tag without an
opening one stays what it is: in a stream the text before it has long been shown, and recorded answers have one behind
plain text (llama.cpp with Qwen3). Only the first block is one; an answer that speaks of the tags keeps them.
"""

from enum import Enum, auto
from typing import NamedTuple

_MAX_HELD_CHARS = (
    1_000  # No provider sends so much white space first, and an endless one would cost ever more.
)
_OPEN, _CLOSE = "<think>", "</think>"


class Told(NamedTuple):
    """What of a text is reasoning, and what is answer."""

    reasoning: str
    content: str


class _Place(Enum):
    BEFORE = auto()
    INSIDE = auto()
    BEHIND = auto()
    ANSWER = auto()


class ThinkTags:
    """One answer, read piece by piece; what may become a tag is held until it is clear."""

    def __init__(self) -> None:
        self._place = _Place.BEFORE
        self._held = ""

    @property
    def over(self) -> bool:
        """Whatever follows is answer."""
        return self._place is _Place.ANSWER

    def read(self, text: str) -> Told:
        """Return what the next piece makes clear."""
        text, self._held = self._held + text, ""
        if self._place is _Place.BEFORE:
            start = text.lstrip()
            if start.startswith(_OPEN):
                self._place, text = _Place.INSIDE, start.removeprefix(_OPEN)
            elif _OPEN.startswith(start) and len(text) <= _MAX_HELD_CHARS:
                self._held = text
                return Told("", "")
            else:
                self._place = _Place.ANSWER
        if self._place is _Place.INSIDE:
            return self._inside(text)
        return Told("", self._behind(text) if self._place is _Place.BEHIND else text)

    def end(self) -> Told:
        """Return what is held, now that nothing follows."""
        text, self._held = self._held, ""
        was, self._place = self._place, _Place.ANSWER
        return Told(text, "") if was is _Place.INSIDE else Told("", text)

    def _inside(self, text: str) -> Told:
        reasoning, closing, rest = text.partition(_CLOSE)
        if closing:
            self._place = _Place.BEHIND
            return Told(reasoning, self._behind(rest))
        kept = next(length for length in range(len(_CLOSE) - 1, -1, -1) if text.endswith(_CLOSE[:length]))
        self._held = _CLOSE[:kept]
        return Told(text[: len(text) - kept], "")

    def _behind(self, text: str) -> str:
        rest = text.lstrip()
        if rest:
            self._place = _Place.ANSWER
        return rest


def split_text(text: str) -> Told:
    """Return the two parts of a whole answer."""
    tags = ThinkTags()
    told, last = tags.read(text), tags.end()
    return Told(told.reasoning + last.reasoning, told.content + last.content)
