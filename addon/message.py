"""What one message, or one delta of a stream, shows to whoever reads it. Pure."""

import json
from collections.abc import Iterable, Mapping

_ANSWER = ("content", "refusal", "text")
_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
_TEXT_MEMBERS = ("text", "thinking", "summary")
_MAX_DEPTH = 8  # no provider nests deeper than 4, and a hostile one must not exhaust the stack
_THINGS = ("tool_calls", "function_call", "audio", "images")


def text_chars(message: Mapping[str, object]) -> int:
    """Return the number of characters of answer, reasoning, refusal and tool arguments in a message or delta.

    Reasoning that stands there under two names counts once.
    """
    chars = reasoning = 0
    for name, value in message.items():
        if not value:
            continue
        if name in _ANSWER:
            chars += _chars(value)
        elif name in _REASONING:
            reasoning = max(reasoning, _chars(value))
        elif name == "tool_calls" and isinstance(value, list):
            chars += sum(map(_call_chars, value))
        elif name == "function_call":
            chars += _argument_chars(value)
    return chars + reasoning


def choice_text_chars(choice: object) -> int:
    """Return the same for one element of ``choices``: its delta or message, or a text completion's text."""
    if not isinstance(choice, dict):
        return 0
    for name in ("delta", "message"):
        if isinstance(shown := choice.get(name), dict):
            return text_chars(shown)
    return text_chars({"text": choice.get("text")})


def shows_nothing(message: Mapping[str, object]) -> bool:
    """Tell whether a message has no text of any kind, no tool call, no sound and no picture."""
    return (
        not text_chars(message)
        and not any(message.get(name) for name in _THINGS)
        and not _has_other_parts(message.get("content"))
    )


def finish_reason(choices: Iterable[object]) -> str | None:
    """Return the last finish_reason of ``choices`` that says something, as text; an empty one doesn't."""
    found = None
    for choice in choices:
        reason = choice.get("finish_reason") if isinstance(choice, dict) else None
        if reason is not None and reason != "":
            found = str(reason)
    return found


def _chars(content: object, depth: int = 0) -> int:
    """Text stands as a string, or in a list of parts that may nest (Mistral's ``thinking``)."""
    if isinstance(content, str):
        return len(content)
    if depth == _MAX_DEPTH:
        return 0
    if isinstance(content, list):
        return sum(_chars(part, depth + 1) for part in content)
    if isinstance(content, dict):
        return sum(_chars(content.get(name), depth + 1) for name in _TEXT_MEMBERS)
    return 0


def _has_other_parts(content: object) -> bool:
    """Tell whether content holds anything beyond text: a picture part, or an object in place of a string."""
    parts = content if isinstance(content, list) else [content]
    return any(isinstance(p, dict) and p and not any(name in p for name in _TEXT_MEMBERS) for p in parts)


def _call_chars(call: object) -> int:
    return _argument_chars(call.get("function") or call.get("custom")) if isinstance(call, dict) else 0


def _argument_chars(call: object) -> int:
    if not isinstance(call, dict):
        return 0
    arguments = call.get("arguments") or call.get("input") or ""
    try:
        return len(arguments if isinstance(arguments, str) else json.dumps(arguments))
    except RecursionError:
        return 0  # No tool has arguments that deep, so they are worth no estimate.
