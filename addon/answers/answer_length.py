"""The length of all that one message, or one delta of a stream, shows to its reader. Pure."""

import json
from collections.abc import Callable, Mapping

_ANSWER = ("content", "refusal", "text")
_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
_TEXT_MEMBERS = frozenset({"text", "thinking", "summary"})
# Members that only identify a thing; they cost no token. Groq repeats ``channel`` in every delta (recorded).
_LABELS = frozenset({"role", "type", "format", "index", "id", "channel"})
_CALL_LABELS = _LABELS | {"function", "custom"}
_MAX_DEPTH = 8  # no provider nests deeper than 4, and a hostile one must not exhaust the stack
_THINGS = ("tool_calls", "function_call", "audio", "images")


def text_chars(message: Mapping[str, object]) -> int:
    """Return the number of characters of answer, reasoning, refusal and tool arguments in a message or delta.

    Reasoning under two names counts once.
    """
    return _message_chars(message, _text_alone)


def relayed_chars(choice: object) -> int:
    """Return the length of one element of ``choices``, for estimates: its delta or message, or a completion's text.

    Text counts as in ``text_chars``. Every other field that is not empty counts as its JSON: sound, pictures,
    encrypted reasoning, and fields that are unknown today.
    """
    if not isinstance(choice, dict):
        return 0
    for name in ("delta", "message"):
        if isinstance(shown := choice.get(name), dict):
            return _message_chars(shown, _json_chars)
    return _message_chars({"text": choice.get("text")}, _json_chars)


def shows_nothing(message: Mapping[str, object]) -> bool:
    """Return whether a message has no text of any kind, no tool call, no sound and no picture."""
    if not any(message.values()):
        return True
    content = message.get("content")
    if content and type(content) is str:
        return False
    return (
        not text_chars(message)
        and not any(message.get(name) for name in _THINGS)
        and not _has_other_parts(content)
    )


def _message_chars(message: Mapping[str, object], count_other: Callable[[object], int]) -> int:
    """Return the length of all that a message shows; ``count_other`` gives the length of a value that is not text."""
    chars = reasoning = 0
    for name, value in message.items():
        if not value:
            continue
        if name in _ANSWER:
            chars += len(value) if type(value) is str else _chars(value, count_other)
        elif name in _LABELS:
            continue
        elif name in _REASONING:
            text = _chars(value, _text_alone)
            reasoning = max(reasoning, text)
            chars += _chars(value, count_other) - text
        elif name == "tool_calls" and isinstance(value, list):
            chars += sum(_call_chars(call, count_other) for call in value)
        elif name == "function_call":
            chars += _argument_chars(value)
        else:
            chars += count_other(value)
    return chars + reasoning


def _chars(content: object, count_other: Callable[[object], int], depth: int = 0) -> int:
    """Return the length of content: a string, or a list of parts that may nest (Mistral's ``thinking``)."""
    if isinstance(content, str):
        return len(content)
    if depth == _MAX_DEPTH:
        return 0
    if isinstance(content, list):
        return sum(_chars(part, count_other, depth + 1) for part in content)
    if isinstance(content, dict):
        text = sum(_chars(content.get(name), count_other, depth + 1) for name in _TEXT_MEMBERS)
        others = [value for name, value in content.items() if name not in _TEXT_MEMBERS | _LABELS]
        return text + sum(count_other(value) for value in others if value)
    return 0


def _text_alone(_value: object) -> int:
    return 0


def _json_chars(value: object) -> int:
    try:
        return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    except (RecursionError, ValueError, TypeError):
        return 0  # No provider means anything that deep.


def _has_other_parts(content: object) -> bool:
    """Return whether content holds more than text: a picture part, or an object in place of a string."""
    parts = content if isinstance(content, list) else [content]
    return any(isinstance(p, dict) and p and not any(name in p for name in _TEXT_MEMBERS) for p in parts)


def _call_chars(call: object, count_other: Callable[[object], int]) -> int:
    if not isinstance(call, dict):
        return 0
    others = [value for name, value in call.items() if value and name not in _CALL_LABELS]
    body = call.get("function") or call.get("custom")
    return _argument_chars(body) + sum(map(count_other, others))


def _argument_chars(call: object) -> int:
    if not isinstance(call, dict):
        return 0
    arguments = call.get("arguments") or call.get("input") or ""
    try:
        return len(arguments if isinstance(arguments, str) else json.dumps(arguments))
    except RecursionError:
        return 0  # No tool has arguments that deep, so they need no estimate.
