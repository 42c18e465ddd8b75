"""Answers of Anthropic's Messages API as its SDK reads them, compared with chat completions.

Nothing here comes from the gateway. The SDK's types read recordings and merge answers. This module turns an answer of
either API into a form that can be compared.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from anthropic._models import construct_type
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk


def events_of(stream_text: str) -> list[dict[str, Any]]:
    """Return the objects in the data lines of a recorded stream."""
    return [json.loads(line[5:]) for line in stream_text.splitlines() if line.startswith("data:")]


def message_of(answer: Mapping[str, Any]) -> Message:
    """Return a whole answer as the SDK reads it."""
    message = construct_type(type_=Message, value=dict(answer))
    assert isinstance(message, Message)
    return message


def accumulated(events: Iterable[Mapping[str, Any]]) -> Message:
    """Return a streamed answer as the SDK merges it."""
    snapshot, buffers = None, {}
    for event in events:
        if event["type"] != "ping":
            read: Any = construct_type(type_=RawMessageStreamEvent, value=event)
            snapshot = accumulate_event(event=read, current_snapshot=snapshot, json_bufs=buffers)
    assert snapshot is not None, "a stream without events"
    return snapshot


def meaning_of_message(message: Message) -> dict[str, Any]:
    """Return the meaning of a message of the SDK."""
    calls = [block for block in message.content if block.type == "tool_use"]
    usage = message.usage
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    prompt = usage.input_tokens + (read or 0) + (written or 0)
    details = usage.output_tokens_details
    return {
        "id": message.id,
        "text": "".join(block.text for block in message.content if block.type == "text"),
        "reasoning": "".join(block.thinking for block in message.content if block.type == "thinking"),
        "signatures": [b.signature for b in message.content if b.type == "thinking" and b.signature],
        "sealed": [block.data for block in message.content if block.type == "redacted_thinking"],
        "calls": [(call.id, call.name, call.input) for call in calls],
        "stop_reason": message.stop_reason,
        "usage": (prompt, usage.output_tokens, prompt + usage.output_tokens),
        "cache": (read, written),
        "reasoning_tokens": details.thinking_tokens if details else None,
    }


def meaning_of_completion(completion: Mapping[str, Any]) -> dict[str, Any]:
    """Return the meaning of a chat completion of OpenAI's SDK."""
    read = ChatCompletion.model_validate(completion)
    (choice,) = read.choices
    return _chat_meaning(
        read.id, choice.message.model_dump(exclude_unset=True), choice.finish_reason, completion
    )


def assembled(chunks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the chat completion of these chunks. OpenAI's SDK reads each chunk."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    made: dict[str, Any] = {"id": "", "object": "chat.completion", "created": 0, "model": ""}
    finish_reason = None
    for raw in chunks:
        chunk = ChatCompletionChunk.model_validate(raw)
        made |= {"id": chunk.id or made["id"], "created": chunk.created, "model": chunk.model}
        if "usage" in raw:
            made["usage"] = raw["usage"]
        for choice in raw["choices"]:
            assert finish_reason is None, "a delta after the last one"
            finish_reason = choice["finish_reason"]
            _add(message, choice["delta"])
    made["choices"] = [{"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}]
    return made


def _add(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for name in ("content", "reasoning_content", "refusal"):
        if delta.get(name):
            message[name] = (message.get(name) or "") + delta[name]
    for piece in delta.get("reasoning_details", []):
        _add_piece(message.setdefault("reasoning_details", []), piece)
    for piece in delta.get("tool_calls", []):
        calls = message.setdefault("tool_calls", [])
        if piece["index"] == len(calls):
            assert piece["id"] and piece["type"] == "function", "a call begins with its id and type"
            calls.append({"id": piece["id"], "type": "function", "function": dict(piece["function"])})
        else:
            assert piece["index"] < len(calls) and "id" not in piece and "name" not in piece["function"]
            calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]


def _add_piece(details: list[dict[str, Any]], piece: Mapping[str, Any]) -> None:
    if piece["index"] == len(details):
        details.append(dict(piece))
        return
    detail = details[piece["index"]]
    for name in ("text", "signature", "data"):
        if name in piece:
            detail[name] = detail.get(name, "") + piece[name]


def _chat_meaning(
    answer_id: str, message: Mapping[str, Any], finish_reason: str, completion: Mapping[str, Any]
) -> dict[str, Any]:
    usage = completion.get("usage") or {}
    cache = usage.get("prompt_tokens_details", {})
    calls = [(call["id"], call["function"]) for call in message.get("tool_calls") or []]
    details = message.get("reasoning_details") or []
    return {
        "id": answer_id,
        "text": message.get("content") or "",
        "reasoning": message.get("reasoning_content") or "",
        "signatures": [detail["signature"] for detail in details if detail.get("signature")],
        "sealed": [detail["data"] for detail in details if detail["type"] == "reasoning.encrypted"],
        "calls": [(call, function["name"], json.loads(function["arguments"])) for call, function in calls],
        "finish_reason": finish_reason,
        "usage": tuple(usage.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")),
        "cache": (cache.get("cached_tokens"), cache.get("cache_write_tokens")),
        "reasoning_tokens": usage.get("completion_tokens_details", {}).get("reasoning_tokens"),
    }
