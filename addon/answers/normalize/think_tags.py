"""The rule for think tags: text between a leading ``<think>`` and ``</think>`` is reasoning. Pure.

``<reasoning>`` and ``</reasoning>`` mean the same: Amazon Bedrock writes them around the reasoning of gpt-oss.

The result is the same for every way of cutting the stream. White space before the opening tag, and right after the
closing one, belongs to neither text. A closing tag without an opening one stays: in a stream the text before it is
already sent, and recorded answers have one after plain text (llama.cpp with Qwen3). Only the first block counts; an
answer that is about the tags keeps them.
"""

from enum import Enum, auto
from types import MappingProxyType
from typing import Final, NamedTuple

_MAX_HELD_CHARS = 1_000
"""The most leading white space that is kept. No provider sends that much. Without a bound its cost would grow."""
_CLOSING: Final = MappingProxyType({"<think>": "</think>", "<reasoning>": "</reasoning>"})
"""The closing tag of each opening one."""


class SplitText(NamedTuple):
    """A text, split into reasoning and answer."""

    reasoning: str
    content: str


class _Position(Enum):
    BEFORE = auto()
    INSIDE = auto()
    AFTER = auto()
    ANSWER = auto()


class ThinkTags:
    """One answer, read piece by piece. Text that may become a tag is held until that is clear."""

    def __init__(self) -> None:
        self._position = _Position.BEFORE
        self._closing = ""
        self._held = ""

    @property
    def is_over(self) -> bool:
        """Whether all that follows is answer."""
        return self._position is _Position.ANSWER

    def read(self, text: str) -> SplitText:
        """Take the next piece; return the text that is clear now."""
        text, self._held = self._held + text, ""
        if self._position is _Position.BEFORE:
            start = text.lstrip()
            opening = next((tag for tag in _CLOSING if start.startswith(tag)), None)
            if opening:
                self._position, self._closing = _Position.INSIDE, _CLOSING[opening]
                text = start.removeprefix(opening)
            elif len(text) <= _MAX_HELD_CHARS and any(tag.startswith(start) for tag in _CLOSING):
                self._held = text
                return SplitText("", "")
            else:
                self._position = _Position.ANSWER
        if self._position is _Position.INSIDE:
            return self._inside(text)
        return SplitText("", self._after(text) if self._position is _Position.AFTER else text)

    def end(self) -> SplitText:
        """Return the held text, because nothing follows."""
        text, self._held = self._held, ""
        was, self._position = self._position, _Position.ANSWER
        return SplitText(text, "") if was is _Position.INSIDE else SplitText("", text)

    def _inside(self, text: str) -> SplitText:
        closing = self._closing
        reasoning, is_closed, rest = text.partition(closing)
        if is_closed:
            self._position = _Position.AFTER
            return SplitText(reasoning, self._after(rest))
        kept = next(length for length in range(len(closing) - 1, -1, -1) if text.endswith(closing[:length]))
        self._held = closing[:kept]
        return SplitText(text[: len(text) - kept], "")

    def _after(self, text: str) -> str:
        rest = text.lstrip()
        if rest:
            self._position = _Position.ANSWER
        return rest


def split_text(text: str) -> SplitText:
    """Split the text of a whole answer."""
    tags = ThinkTags()
    first, last = tags.read(text), tags.end()
    return SplitText(first.reasoning + last.reasoning, first.content + last.content)
