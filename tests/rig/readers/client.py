"""A client's answer, as the official OpenAI SDK read it."""

import json
from collections.abc import Iterable
from typing import Any

from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from rig.readers import Answer, ReadChoice, ToolCall, read_arguments


def read_whole(answer: ChatCompletion) -> Answer:
    """Read a whole answer."""
    made: dict[str, Any] = answer.to_dict(warnings=False)
    choices = {
        choice["index"]: _choice(choice["message"], choice.get("finish_reason")) for choice in made["choices"]
    }
    return Answer(choices, made.get("usage"))


def chunks_in(stream: bytes) -> list[ChatCompletionChunk]:
    """Return the chunks of a stream as the gateway sends it."""
    events = (event[6:] for event in stream.split(b"\n\n") if event.startswith(b"data: {"))
    return [ChatCompletionChunk.construct(**json.loads(text)) for text in events]


def read_stream(chunks: Iterable[ChatCompletionChunk]) -> Answer:
    """Join chunks as the API's reference says: text is appended, calls grow at their index.

    Raises AssertionError when finish reasons differ, or when an id or a name of a call comes twice.
    """
    messages: dict[int, dict[str, Any]] = {}
    reasons: dict[int, str | None] = {}
    usage = None
    for chunk in chunks:
        made: dict[str, Any] = chunk.to_dict(warnings=False)
        usage = made.get("usage") or usage
        for choice in made["choices"]:
            index = choice["index"]
            _append(messages.setdefault(index, {}), choice.get("delta") or {})
            if (reason := choice.get("finish_reason")) is not None:
                assert reasons.get(index) in (None, reason), (
                    f"finish reasons {reasons[index]!r} and {reason!r}"
                )
                reasons[index] = reason
    return Answer({index: _choice(made, reasons.get(index)) for index, made in messages.items()}, usage)


def sdk_accumulates(chunks: Iterable[ChatCompletionChunk]) -> Answer:
    """Join chunks with the SDK's own code, which raises when they are malformed."""
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(chunk)
    snapshot: dict[str, Any] = state.current_completion_snapshot.to_dict(warnings=False)
    roles = {choice["message"].get("role") for choice in snapshot["choices"]}
    assert roles <= {"assistant", None}, f"roles {roles}"
    choices = {
        choice["index"]: _choice(choice["message"], choice.get("finish_reason"))
        for choice in snapshot["choices"]
    }
    return Answer(choices, snapshot.get("usage"))


def _append(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for name in ("content", "reasoning_content"):
        if (piece := delta.get(name)) is not None:
            assert isinstance(piece, str), f"{name} is {type(piece).__name__}"
            message[name] = message.get(name, "") + piece
    calls = message.setdefault("tool_calls", [])
    for piece in delta.get("tool_calls") or ():
        if piece["index"] == len(calls):
            calls.append({"id": piece["id"], "function": {"name": "", "arguments": ""}})
            assert piece["type"] in ("function", "custom")
        else:
            assert not piece.get("id"), f"a second id {piece['id']!r}"
        call, custom = calls[piece["index"]]["function"], piece.get("custom")
        function = (
            {"name": custom.get("name"), "arguments": custom["input"]}
            if custom
            else piece.get("function") or {}
        )
        assert not (call["name"] and function.get("name")), f"a second name {function['name']!r}"
        call["name"] += function.get("name") or ""
        call["arguments"] += function.get("arguments") or ""


def _choice(message: dict[str, Any], finish_reason: str | None) -> ReadChoice:
    calls = [_call(call) for call in message.get("tool_calls") or ()]
    content, reasoning = message.get("content") or "", message.get("reasoning_content") or ""
    assert isinstance(content, str), f"content is {type(content).__name__}"
    return ReadChoice(content, reasoning, calls, finish_reason)


def _call(call: dict[str, Any]) -> ToolCall:
    function = call.get("function") or {"name": call["custom"]["name"], "arguments": call["custom"]["input"]}
    assert isinstance(function["arguments"], str), f"arguments are {type(function['arguments']).__name__}"
    return ToolCall(call["id"], function["name"], read_arguments(function["arguments"]))
