"""Streamed tool calls, as they are relayed and as the official SDK joins them."""

from typing import Any

from openai._models import construct_type
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from addon.answers.normalize.choices import ChunkNormalizer
from policies.family import Family

FAMILY = Family("plain")


def chunk(calls: Any, index: int = 0, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": index, "delta": {"tool_calls": calls}, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def assembled(chunks: list[dict[str, Any]], index: int = 0) -> list[Any]:
    """Return the calls that the SDK makes of a normalized stream."""
    normalizer, state = ChunkNormalizer(FAMILY), ChatCompletionStreamState()
    for one in chunks:
        choices = normalizer.normalize(one).choices
        sent = one if choices is None else {**one, "choices": choices}
        state.handle_chunk(construct_type(type_=ChatCompletionChunk, value=sent))
    return state.current_completion_snapshot.choices[index].message.tool_calls or []
