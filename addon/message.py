"""What one message, or one delta of a stream, shows to whoever reads it. Pure."""

import json
from collections.abc import Iterable, Mapping

_TEXT_MEMBERS = ("text", "thinking", "summary")
_THINGS = ("tool_calls", "function_call", "audio", "images")


def text_chars(message: Mapping[str, object]) -> int:
    """Return the number of characters of answer, reasoning, refusal and tool arguments in a message or delta.

    Reasoning that stands there under two names counts once.
    """
    chars = _chars(message.get("content")) + _chars(message.get("refusal"))
    for name in ("reasoning_content", "reasoning", "reasoning_details"):
        if reasoning := _chars(message.get(name)):
            chars += reasoning
            break
    return chars + sum(map(_argument_chars, _calls(message)))


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
        reason = choice.get("finish_reason") if isinstance(choice, Mapping) else None
        if reason is not None and reason != "":
            found = str(reason)
    return found


def _chars(content: object) -> int:
    """Text stands as a string, or in a list of parts that may nest (Mistral's ``thinking``)."""
    if isinstance(content, str):
        return len(content)
    if isinstance(content, list):
        return sum(map(_chars, content))
    if isinstance(content, dict):
        return sum(_chars(content.get(name)) for name in _TEXT_MEMBERS)
    return 0


def _has_other_parts(content: object) -> bool:
    """Tell whether content holds anything beyond text: a picture part, or an object in place of a string."""
    parts = content if isinstance(content, list) else [content]
    return any(isinstance(p, dict) and p and not any(name in p for name in _TEXT_MEMBERS) for p in parts)


def _calls(message: Mapping[str, object]) -> list[object]:
    calls = message.get("tool_calls")
    entries = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    return [*(call.get("function") or call.get("custom") for call in entries), message.get("function_call")]


def _argument_chars(call: object) -> int:
    if not isinstance(call, dict):
        return 0
    arguments = call.get("arguments") or call.get("input") or ""
    return len(arguments if isinstance(arguments, str) else json.dumps(arguments))
