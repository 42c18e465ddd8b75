"""Independent readers: the content of a recording, and of a client's answer, in one plain form to compare.

The readers share no code with ``addon/``. A provider's own SDK reads its recordings, if it has one; ``chat`` reads
the chat shape; the OpenAI SDK in ``client`` reads the client's answer.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jiter

STANDARD = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
"""The reasons that the contract names, and the one of the older functions of the chat API."""


@dataclass
class ToolCall:
    """One call of a tool; ``id`` is None when the recording has none."""

    id: str | None
    name: str
    arguments: Any
    """The parsed JSON of the arguments, as far as it goes, or the text itself."""


@dataclass
class ReadChoice:
    """One choice of an answer."""

    text: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    finish_reason: str | None = None


@dataclass
class Answer:
    """A whole answer, or all of a stream: its choices by index, and its usage block in the chat shape."""

    choices: dict[int, ReadChoice]
    usage: Mapping[str, Any] | None


def read_arguments(text: str) -> Any:
    """Read the arguments of a call. Their end may be missing; empty arguments are an empty object."""
    if not text.strip():
        return {}
    try:
        return json.loads(text)
    except ValueError:
        try:
            return jiter.from_json(text.encode(), partial_mode=True)
        except ValueError:
            return text


def difference(got: Answer, recorded: Answer) -> str | None:
    """Return the difference between the client's answer and the recorded one, or None."""
    if set(got.choices) != set(recorded.choices):
        return f"choices {sorted(got.choices)}, recorded {sorted(recorded.choices)}"
    for index, choice in recorded.choices.items():
        if problem := _difference(got.choices[index], choice):
            return f"choice {index}: {problem}"
    return None if got.usage == recorded.usage else f"usage {got.usage!r}, recorded {recorded.usage!r}"


def _difference(got: ReadChoice, recorded: ReadChoice) -> str | None:
    for name in ("text", "reasoning", "finish_reason"):
        seen, expected = getattr(got, name), getattr(recorded, name)
        if expected is None and name == "finish_reason" and seen is not None:
            expected = "tool_calls" if recorded.calls else "stop"  # of a whole answer that has none
        if seen != expected:
            return f"{name} {_excerpt(seen)}, recorded {_excerpt(expected)}"
    if len(got.calls) != len(recorded.calls):
        return f"{len(got.calls)} tool calls, recorded {len(recorded.calls)}"
    for seen_call, call in zip(got.calls, recorded.calls, strict=True):
        if (seen_call.name, seen_call.arguments) != (call.name, call.arguments):
            return f"tool call {_excerpt(seen_call)}, recorded {_excerpt(call)}"
        if not seen_call.id or seen_call.id != (call.id or seen_call.id):
            return f"tool call id {seen_call.id!r}, recorded {call.id!r}"
    if len({call.id for call in got.calls}) != len({call.id or object() for call in recorded.calls}):
        return f"tool call ids {[call.id for call in got.calls]}"
    return None


def _excerpt(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:200]} … {text[-200:]}"
