"""The rule for content that is not a string: its text becomes a string, its thinking becomes reasoning. Pure.

A list with parts of other kinds (pictures, references) stays a list, without its thinking. An object that is not a part
is JSON that the model wrote in JSON mode and its provider parsed (Cloudflare). It becomes text again.
Sources: recordings of Mistral and xAI (``thinking`` parts), Cloudflare (an object); Databricks' documentation
(``reasoning`` parts with a ``summary``).
"""

from typing import Any

from addon.answers.normalize.think_tags import SplitText
from addon.text.json_encode import encode_json

_TEXT = ("text", "output_text")
_THINKING = ("thinking", "reasoning")
_TEXT_MEMBERS = ("text", "thinking", "summary", "reasoning")
_MAX_DEPTH = 8  # no provider nests deeper than 4, and a hostile one must not exhaust the stack


def with_text(shown: dict[str, Any], text: SplitText, *, drops_empty: bool) -> dict[str, Any]:
    """Return a message or delta with ``text``. ``drops_empty``: leave out empty content next to reasoning."""
    made = {**shown, "content": text.content}
    if text.reasoning:
        made["reasoning_content"] = (shown.get("reasoning_content") or "") + text.reasoning
        if drops_empty and not text.content:
            del made["content"]
    return made


def with_plain_content(shown: dict[str, Any], *, drops_empty: bool) -> dict[str, Any]:
    """Return a message or delta whose content is a string, null, absent, or a list with other parts than text."""
    content = shown.get("content")
    if isinstance(content, dict):
        if not _is_part(content):
            return {**shown, "content": encode_json(content).decode()}
        content = [content]
    if not isinstance(content, list):
        return shown
    thinking = "".join(text_of(part) for part in content if _is_thinking(part))
    if shown.get("reasoning_content"):
        thinking = ""  # The text is in reasoning_content already.
    rest = [part for part in content if not _is_thinking(part)]
    if not all(map(_is_text, rest)):
        if len(rest) == len(content):
            return shown
        made = {**shown, "content": rest}
        return made | {"reasoning_content": thinking} if thinking else made
    return with_text(shown, SplitText(thinking, "".join(map(text_of, rest))), drops_empty=drops_empty)


def text_of(value: object, depth: int = 0) -> str:
    """Return the text of a part: a string, or the text of its members, also in lists of parts."""
    if isinstance(value, str):
        return value
    if depth == _MAX_DEPTH:
        return ""
    if isinstance(value, list):
        return "".join(text_of(part, depth + 1) for part in value)
    if isinstance(value, dict):
        return "".join(text_of(value.get(name), depth + 1) for name in _TEXT_MEMBERS)
    return ""


def _is_part(content: dict[str, Any]) -> bool:
    return _is_thinking(content) or (content.get("type", "text") in _TEXT and _is_text(content))


def _is_text(part: object) -> bool:
    if isinstance(part, dict):
        return part.get("type", "text") in _TEXT and isinstance(part.get("text"), str)
    return isinstance(part, str)


def _is_thinking(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") in _THINKING
