"""Content that is not a string: its text becomes one, its thinking becomes reasoning. Pure.

A list with parts of other kinds (pictures, references) stays a list, without its thinking. An object that is no part is
what a model wrote in JSON mode, read by its provider (Cloudflare): it becomes its text again.
Sources: recordings of Mistral and xAI (``thinking`` parts), Cloudflare (an object); Databricks' documentation
(``reasoning`` parts with a ``summary``).
"""

from typing import Any

from addon.answers.normalize.think_tags import Told
from addon.text.json_encode import json_text

_TEXT = ("text", "output_text")
_THINKING = ("thinking", "reasoning")
_TEXT_MEMBERS = ("text", "thinking", "summary", "reasoning")
_MAX_DEPTH = 8  # no provider nests deeper than 4, and a hostile one must not exhaust the stack


def with_text(shown: dict[str, Any], told: Told, *, drops_empty: bool) -> dict[str, Any]:
    """Return a message or delta that shows ``told``; ``drops_empty`` leaves out content beside reasoning."""
    made = {**shown, "content": told.content}
    if told.reasoning:
        made["reasoning_content"] = (shown.get("reasoning_content") or "") + told.reasoning
        if drops_empty and not told.content:
            del made["content"]
    return made


def with_plain_content(shown: dict[str, Any], *, drops_empty: bool) -> dict[str, Any]:
    """Return a message or delta whose content is a string, null, absent, or a list with other parts than text."""
    content = shown.get("content")
    if isinstance(content, dict):
        if not _is_part(content):
            return {**shown, "content": json_text(content).decode()}
        content = [content]
    if not isinstance(content, list):
        return shown
    thinking = "".join(text_of(part) for part in content if _is_thinking(part))
    if shown.get("reasoning_content"):
        thinking = ""  # It is there already.
    rest = [part for part in content if not _is_thinking(part)]
    if not all(map(_is_text, rest)):
        if len(rest) == len(content):
            return shown
        made = {**shown, "content": rest}
        return made | {"reasoning_content": thinking} if thinking else made
    return with_text(shown, Told(thinking, "".join(map(text_of, rest))), drops_empty=drops_empty)


def text_of(value: object, depth: int = 0) -> str:
    """Return the text of a part: a string, or what stands in its members, in lists of parts too."""
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
