"""Independent readers: what a recording tells, and what a client got, in one plain form to be compared.

Nothing here is shared with ``addon/``. A provider that has an SDK is read by its SDK; the chat shape by ``chat``; the
client's side by the OpenAI SDK in ``client``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jiter

STANDARD = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
"""The reasons that the contract names, and the one of the chat API's older functions."""


@dataclass
class ToolCall:
    """One call of a tool; ``id`` is None where the recording gives none."""

    id: str | None
    name: str
    arguments: Any
    """What the arguments' JSON says, as far as it goes; the text itself where it is no JSON."""


@dataclass
class Told:
    """One choice of an answer."""

    text: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    finish_reason: str | None = None


@dataclass
class Answer:
    """A whole answer, or all of a stream: its choices by index, and its usage block in the chat shape."""

    choices: dict[int, Told]
    usage: Mapping[str, Any] | None


def read_arguments(text: str) -> Any:
    """Read the arguments of a call, of which the end may be missing; none at all are an empty object."""
    if not text.strip():
        return {}
    try:
        return json.loads(text)
    except ValueError:
        try:
            return jiter.from_json(text.encode(), partial_mode=True)
        except ValueError:
            return text


def difference(got: Answer, told: Answer) -> str | None:
    """Return in what the client's answer differs from the recorded one, or None."""
    if set(got.choices) != set(told.choices):
        return f"choices {sorted(got.choices)}, recorded {sorted(told.choices)}"
    for index, recorded in told.choices.items():
        if problem := _difference(got.choices[index], recorded):
            return f"choice {index}: {problem}"
    return None if got.usage == told.usage else f"usage {got.usage!r}, recorded {told.usage!r}"


def _difference(got: Told, told: Told) -> str | None:
    for name in ("text", "reasoning", "finish_reason"):
        seen, recorded = getattr(got, name), getattr(told, name)
        if seen != recorded:
            return f"{name} {_excerpt(seen)}, recorded {_excerpt(recorded)}"
    if len(got.calls) != len(told.calls):
        return f"{len(got.calls)} tool calls, recorded {len(told.calls)}"
    for seen_call, call in zip(got.calls, told.calls, strict=True):
        if (seen_call.name, seen_call.arguments) != (call.name, call.arguments):
            return f"tool call {_excerpt(seen_call)}, recorded {_excerpt(call)}"
        if not seen_call.id or seen_call.id != (call.id or seen_call.id):
            return f"tool call id {seen_call.id!r}, recorded {call.id!r}"
    if len({call.id for call in got.calls}) != len({call.id or object() for call in told.calls}):
        return f"tool call ids {[call.id for call in got.calls]}"
    return None


def _excerpt(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:200]} … {text[-200:]}"
