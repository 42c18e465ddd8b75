"""Answers of the Responses API as OpenAI's SDK reads them, compared with chat completions.

Nothing here comes from the gateway. The SDK's types read recordings and chunks.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from openai._models import construct_type
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

CALLS = ("function_call", "custom_tool_call")


def events_of(stream_text: str) -> list[dict[str, Any]]:
    """Return the objects in the data lines of a recorded stream."""
    lines = (line[5:].strip() for line in stream_text.splitlines() if line.startswith("data:"))
    return [json.loads(line) for line in lines if line != "[DONE]"]


def response_of(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the answer that a stream ends with. Its output is that of the events where the last one has none."""
    items = {
        event["output_index"]: event["item"]
        for event in events
        if event["type"] == "response.output_item.done"
    }
    last = next(e for e in events if e["type"] in ("response.completed", "response.incomplete"))
    return {**last["response"], "output": [items[at] for at in sorted(items)]}


def meaning_of_response(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the meaning of an answer, as the SDK reads it."""
    read = construct_type(type_=Response, value=dict(answer))
    assert isinstance(read, Response)
    messages = [item for item in read.output if item.type == "message"]
    texts = ["".join(part.text for part in m.content if part.type == "output_text") for m in messages]
    refusals = [part.refusal for m in messages for part in m.content if part.type == "refusal"]
    thoughts = [item for item in read.output if item.type == "reasoning"]
    shown = [part.text for item in thoughts for part in [*item.summary, *(item.content or ())]]
    calls = [(item.call_id, item.name, _said(item)) for item in read.output if item.type in CALLS]
    usage: Any = read.usage
    reason = read.incomplete_details.reason if read.incomplete_details else None
    words = {"max_output_tokens": "length", "content_filter": "content_filter"}
    return {
        "id": read.id,
        "text": "\n\n".join(text for text in texts if text),
        "refusal": "".join(refusals),
        "reasoning": "\n\n".join(text for text in shown if text),
        "encrypted": sum(bool(item.encrypted_content) for item in thoughts),
        "calls": calls,
        "finish_reason": words[reason] if reason else "tool_calls" if calls else "stop",
        # No number below zero is a count.
        "usage": usage
        and tuple(max(n, -1) for n in (usage.input_tokens, usage.output_tokens, usage.total_tokens)),
        "details": usage and _details(answer["usage"]),
        "tier": read.service_tier,
    }


def _said(item: Any) -> str:
    said: str = item.arguments if item.type == "function_call" else item.input
    return said


def _details(usage: Mapping[str, Any]) -> tuple[Any, ...]:
    read, made = usage.get("input_tokens_details") or {}, usage.get("output_tokens_details") or {}
    return read.get("cached_tokens"), read.get("cache_write_tokens"), made.get("reasoning_tokens")


def meaning_of_completion(completion: Mapping[str, Any]) -> dict[str, Any]:
    """Return the meaning of a chat completion, as the SDK reads it."""
    # A provider's own name of its service is no value of the SDK's type.
    read = ChatCompletion.model_validate({**completion, "service_tier": None})
    (choice,) = read.choices
    message = choice.message.model_dump(exclude_unset=True)
    calls = [(call["id"], *_called(call)) for call in message.get("tool_calls") or []]
    details = message.get("reasoning_details") or []
    assert all(one["type"] == "reasoning.encrypted" and one["data"] for one in details)
    usage: dict[str, Any] | None = completion.get("usage")
    prompt, made = (
        (usage or {}).get(name) or {} for name in ("prompt_tokens_details", "completion_tokens_details")
    )
    return {
        "id": read.id,
        "text": message.get("content") or "",
        "refusal": message.get("refusal") or "",
        "reasoning": message.get("reasoning_content") or "",
        "encrypted": len(details),
        "calls": calls,
        "finish_reason": choice.finish_reason,
        "usage": usage and (usage["prompt_tokens"], usage["completion_tokens"], usage.get("total_tokens")),
        "details": usage
        and (prompt.get("cached_tokens"), prompt.get("cache_write_tokens"), made.get("reasoning_tokens")),
        "tier": completion.get("service_tier"),
    }


def _called(call: Mapping[str, Any]) -> tuple[str, str]:
    if call["type"] == "custom":
        return call["custom"]["name"], call["custom"]["input"]
    return call["function"]["name"], call["function"]["arguments"]


def assembled(chunks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the chat completion of these chunks. The SDK reads each chunk, and each call begins with its name."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    made: dict[str, Any] = {"id": "", "object": "chat.completion", "created": 0, "model": ""}
    finish_reason = None
    for raw in chunks:
        chunk = ChatCompletionChunk.model_validate(_read_as_functions(raw))
        made |= {"id": chunk.id or made["id"], "created": chunk.created, "model": chunk.model}
        made |= {name: raw[name] for name in ("usage", "service_tier") if name in raw}
        for choice in raw["choices"]:
            assert finish_reason is None, "a delta after the last one"
            finish_reason = choice["finish_reason"]
            _add(message, choice["delta"])
    made["choices"] = [{"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}]
    return made


def _read_as_functions(raw: Mapping[str, Any]) -> Any:
    """Return a chunk whose custom calls are functions: the SDK has no type for theirs in streams."""
    return json.loads(json.dumps(raw).replace('"type": "custom"', '"type": "function"'))


def _add(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for name in ("content", "reasoning_content", "refusal"):
        if delta.get(name):
            message[name] = (message.get(name) or "") + delta[name]
    for name in ("reasoning_details", "annotations"):
        if name in delta:
            message.setdefault(name, []).extend(delta[name])
    for piece in delta.get("tool_calls", []):
        calls = message.setdefault("tool_calls", [])
        if piece["index"] == len(calls):
            assert piece["id"] and piece["type"], "a call begins with its id and type"
            calls.append(json.loads(json.dumps({k: v for k, v in piece.items() if k != "index"})))
            continue
        assert piece["index"] < len(calls) and "id" not in piece
        kind, name = ("custom", "input") if "custom" in piece else ("function", "arguments")
        calls[piece["index"]][kind][name] += piece[kind][name]
