"""A recording of Anthropic's Messages API, read by the official SDK: its types, and its own reader of streams."""

from functools import cache
from typing import Any

import httpx2
from anthropic import Anthropic
from anthropic.types import Message, Usage

from rig.readers import Answer, ReadChoice, ToolCall

FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def read(body: bytes, *, stream: bool) -> Answer:
    """Read a whole answer, or a stream that ended well."""
    content_type = "text/event-stream" if stream else "application/json"
    _recorded[:] = [httpx2.Response(200, headers={"content-type": content_type}, content=body)]
    asked: Any = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}
    if not stream:
        return _answer(_client().messages.create(**asked))
    with _client().messages.stream(**asked) as streamed:
        return _answer(streamed.get_final_message())


_recorded: list[httpx2.Response] = []


@cache
def _client() -> Anthropic:
    """Return the SDK's client. Its transport gives the recorded answer."""
    transport = httpx2.MockTransport(lambda _request: _recorded.pop())
    return Anthropic(api_key="none", max_retries=0, http_client=httpx2.Client(transport=transport))


def _answer(message: Message) -> Answer:
    choice = ReadChoice(finish_reason=FINISH[message.stop_reason] if message.stop_reason else None)
    for block in message.content:
        if block.type == "text":
            choice.text += block.text
        elif block.type == "thinking":
            choice.reasoning += block.thinking
        elif block.type == "tool_use":
            choice.calls.append(ToolCall(block.id, block.name, block.input))
    return Answer({0: choice}, _usage(message.usage))


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    """Return the counts in the chat shape: its prompt includes cached tokens."""
    if usage is None:
        return None
    cached, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    prompt = usage.input_tokens + (cached or 0) + (written or 0)
    counts: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
    }
    details = {"cached_tokens": cached, "cache_write_tokens": written}
    reported = {name: count for name, count in details.items() if count is not None}
    counts |= {"prompt_tokens_details": reported} if reported else {}
    if usage.output_tokens_details is not None:
        counts["completion_tokens_details"] = {
            "reasoning_tokens": usage.output_tokens_details.thinking_tokens
        }
    return counts
