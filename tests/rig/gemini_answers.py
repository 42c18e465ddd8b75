"""Gemini's answers, and the chat completions and chunks that the gateway makes of them."""

import json
from collections.abc import Iterable
from typing import Any

from openai.types.chat import ChatCompletion, ChatCompletionChunk

from addon.dialects.gemini.answer import GeminiStream, to_completion

SLUG, CREATED_S = "gemini-3", 1_700_000_000
USAGE = {"promptTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 12}


def answer(*parts: dict[str, Any], finish: str | None = "STOP", **more: Any) -> dict[str, Any]:
    """Return one event, or a whole answer; ``more`` are its own members, not its candidate's."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "responseId": "r1", "modelVersion": "gemini-3-internal"} | more


def whole(native: dict[str, Any]) -> dict[str, Any]:
    """Return the completion. The SDK's types accept it, except for counts and an end that Gemini did not report."""
    made = to_completion(native, SLUG, CREATED_S)
    counts = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0} | made.get("usage", {})
    ends = [one | {"finish_reason": one["finish_reason"] or "stop"} for one in made["choices"]]
    ChatCompletion.model_validate(json.loads(json.dumps(made | {"usage": counts, "choices": ends})))
    return made


def choice(native: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = whole(native)["choices"][0]
    return found


def streamed(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    stream = GeminiStream(SLUG, CREATED_S)
    chunks = [made for event in events for made in stream.read(event)]
    assert stream.has_finished
    chunks += stream.finish()
    for made in chunks:
        counts = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0} | made.get("usage", {})
        ChatCompletionChunk.model_validate(made | {"usage": counts})
    return chunks
