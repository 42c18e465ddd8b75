"""The rule for reasoning: its text is in ``reasoning_content``, wherever its provider put it. Pure.

``reasoning`` (Groq, Cerebras, Ollama, OpenRouter) is renamed. ``reasoning_details`` stay, because clients send them
back; they are read only when the text is nowhere else (Snowflake). A ``reasoning_content`` with text wins.
Source: contract, "choices[] element"; recordings.
"""

import re
from collections.abc import Mapping
from typing import Any

from addon.answers.normalize.content import text_of
from addon.text.json_edits import Edit, Member, members

_KEY = b'"reasoning"'
_NEW_KEY = b'"reasoning_content"'
_KEY_MEMBER = re.compile(rb'"reasoning"\s*:')
_TWINS = frozenset({"role", "reasoning_content", "reasoning_details"})
_DETAIL = frozenset({"text", "thinking", "summary", "reasoning"})
ADDED_KEY = b',"reasoning_content":'
_TEXT_OR_NONE = (str, type(None))
_ESCAPED_LETTER = re.compile(rb"\\u00[67]")  # a letter of the key would be escaped so


def has_plain_text(shown: Mapping[str, Any]) -> bool:
    """Return whether a message or delta has its texts where the contract has them, after a quick look.

    Neither ``with_reasoning_content`` nor the rule for content changes such a message.
    """
    if type(shown.get("content")) not in _TEXT_OR_NONE or shown.get("reasoning"):
        return False
    return type(shown.get("reasoning_content")) in _TEXT_OR_NONE and not shown.get("reasoning_details")


def with_reasoning_content(shown: dict[str, Any], *, reads_details: bool = True) -> dict[str, Any]:
    """Return a message or delta with its reasoning in ``reasoning_content``.

    ``reads_details`` is false when earlier chunks of the same answer had the text elsewhere.
    """
    known = shown.get("reasoning_content")
    if known and isinstance(known, str):
        return shown
    if text := text_of(known) or text_of(shown.get("reasoning")):
        return _renamed(shown, text)
    if reads_details and (text := _details_text(shown.get("reasoning_details"))):
        return {**shown, "reasoning_content": text}
    return shown


def is_only_renamed(shown: Mapping[str, Any]) -> bool:
    """Return whether ``with_reasoning_content`` changes only a key, so that the bytes can be edited."""
    return (
        "reasoning_content" not in shown and bool(shown.get("reasoning")) and type(shown["reasoning"]) is str
    )


def is_only_added(shown: Mapping[str, Any]) -> bool:
    """Return whether ``with_reasoning_content`` only adds the text of the only detail, so that bytes can be added."""
    if "reasoning_content" in shown or "reasoning" in shown:
        return False
    details = shown.get("reasoning_details")
    if not isinstance(details, list) or len(details) != 1 or not isinstance(details[0], dict):
        return False
    return bool(_only_text(details[0]))


def repeats_reasoning(delta: Mapping[str, Any]) -> bool:
    """Return whether a normalized delta has one text, in ``reasoning_content`` and in its only detail (OpenRouter)."""
    text, details = delta.get("reasoning_content"), delta.get("reasoning_details")
    if not text or not isinstance(details, list) or len(details) != 1 or not isinstance(details[0], dict):
        return False
    others = any(value for name, value in delta.items() if name not in _TWINS)
    texts = [shown for name in ("text", "summary") if (shown := details[0].get(name))]
    return not others and texts == [text]


def reasoning_edits(payload: bytes, chunk: Mapping[str, Any]) -> list[Edit]:
    """Return the edits to the JSON ``payload`` of ``chunk`` that put the reasoning of each delta where it belongs.

    They rename ``reasoning``, or add the text of the only detail at the end of the only delta.
    """
    delta = chunk["choices"][-1]["delta"]
    return [_added_edit(payload)] if is_only_added(delta) else _rename_edits(payload, chunk)


def added_place(payload: bytes) -> tuple[Member, int]:
    """Return the text of the only detail of the only delta, with its quotes, and where the text is added.

    The delta ``is_only_added``.
    """
    chars = payload.decode("latin-1")
    shown = members(chars, delta_starts(chars)[-1])
    details = [one.start for one in shown if one.key == "reasoning_details"][-1]
    (detail,) = members(chars, details)
    return [one for one in members(chars, detail.start) if one.key in _DETAIL][-1], shown[-1].end


def _only_text(detail: Mapping[str, Any]) -> str:
    """Return the text of a detail if it is all in ``text`` or all in ``summary``, else nothing."""
    texts = [value for name, value in detail.items() if name in _DETAIL]
    is_single = len(texts) == 1 and ("text" in detail or "summary" in detail)
    return texts[0] if is_single and isinstance(texts[0], str) else ""


def _added_edit(payload: bytes) -> Edit:
    text, end = added_place(payload)
    return end, end, ADDED_KEY + payload[text.start : text.end]


def _rename_edits(payload: bytes, chunk: Mapping[str, Any]) -> list[Edit]:
    # When the word is there only once, and no escape can hide another, it is the key of the known member.
    only_once = payload.count(_KEY) == len(chunk["choices"]) == 1 and not _ESCAPED_LETTER.search(payload)
    if only_once and (found := _KEY_MEMBER.search(payload)):
        return [(found.start(), found.start() + len(_KEY), _NEW_KEY)]
    chars = payload.decode("latin-1")
    return [edit for start in delta_starts(chars) for edit in _key_edits(chars, start)]


def _renamed(shown: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return ``shown`` with ``text`` in place of ``reasoning``, or of a ``reasoning_content`` that is not a string."""
    old = "reasoning" if text_of(shown.get("reasoning")) == text else "reasoning_content"
    made: dict[str, Any] = {}
    for key, value in shown.items():
        if key == old:
            made["reasoning_content"] = text
        elif key != "reasoning_content":
            made[key] = value
    return made


def _details_text(details: object) -> str:
    return "".join(map(text_of, details)) if isinstance(details, list) else ""


def delta_starts(payload: str) -> list[int]:
    """Return where the delta of each choice starts."""
    tops = [one.start for one in members(payload, payload.index("{"), "choices")]
    choices = [one.start for top in tops[-1:] for one in members(payload, top)]
    return [one.start for choice in choices for one in members(payload, choice, "delta")]


def _key_edits(payload: str, start: int) -> list[Edit]:
    edits, search_from = [], start + 1
    for one in members(payload, start):
        if one.key == "reasoning":
            at = payload.index('"', search_from)
            edits.append((at, payload.index('"', at + 1) + 1, _NEW_KEY))
        search_from = one.end
    return edits
