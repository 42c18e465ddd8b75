"""Answers of Anthropic's Messages API, whole and streamed, become chat answers. Pure.

Three things are left out: blocks of tools that the provider runs itself, citations, and types unknown today.
Source: Anthropic, API reference, "Messages" and "Streaming Messages"; the types of its Python SDK 2.12.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, override

from addon.answers.usage import read_count, read_service_tier, sum_counts
from addon.dialects.chat_shape import Identity, choice, chunk, completion
from addon.dialects.content_blocks import (
    MALFORMED,
    BlockStream,
    call_head,
    finish_reason,
    make_message,
    text_of,
    whole_call,
)
from addon.text.json_encode import encode_json
from policies.usage import Usage

_FINISH_REASONS: Final[Mapping[object, str]] = MappingProxyType(
    {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "pause_turn": "stop",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "tool_use": "tool_calls",
        "refusal": "content_filter",
    }
)
_RUNNING: Final = ("output_tokens", "output_tokens_details")


def to_completion(
    answer: dict[str, Any], model_slug: str, created_s: int, answer_id: str = ""
) -> dict[str, Any]:
    """Return a whole answer as a chat completion. ``created_s`` is a Unix time in seconds.

    ``answer_id`` is for an answer without an id of its own. Raises ValueError for anything but a message of the API.
    """
    try:
        identity = Identity(text_of(answer.get("id") or answer_id), created_s, model_slug)
        message = _message(answer["content"])
        if explanation := _refusal(answer):
            message["refusal"] = explanation
        reason = finish_reason(_FINISH_REASONS, answer.get("stop_reason"), has_calls="tool_calls" in message)
        return completion(identity, [choice(message, reason)], chat_usage(answer.get("usage") or {}))
    except MALFORMED as error:
        raise ValueError("it is not a message of the API") from error


def chat_usage(counts: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the chat shape's usage block, or None when nothing is reported.

    ``prompt_tokens`` is the number of all input tokens; Anthropic counts those of the cache apart from the others. A
    count that the provider did not report is absent. Source: Anthropic, "Prompt caching", "Tracking cache
    performance".
    """
    uncached, written = _count(counts, "input_tokens"), _count(counts, "cache_creation_input_tokens")
    read, produced = _count(counts, "cache_read_input_tokens"), _count(counts, "output_tokens")
    thought = _count(counts.get("output_tokens_details"), "thinking_tokens")
    usage: dict[str, Any] = {}
    if uncached is not None:
        usage["prompt_tokens"] = sum_counts(uncached, read, written)
    if produced is not None:
        usage["completion_tokens"] = produced
    if uncached is not None and produced is not None:
        usage["total_tokens"] = sum_counts(usage["prompt_tokens"], produced)
    if cache := _reported(cached_tokens=read, cache_write_tokens=written):
        usage["prompt_tokens_details"] = cache
    if reasoning := _reported(reasoning_tokens=thought):
        usage["completion_tokens_details"] = reasoning
    return usage or None


def read_priced(answer: Mapping[str, Any]) -> Usage:
    """Return the counts of a whole answer, or of ``{"usage": …}``, that the chat shape has no place for.

    Its total of written tokens counts: the terms may add up to less of them. In fast mode ``speed`` is what costs more.
    Source: Anthropic, "Prompt caching", "Fast mode"; recorded traffic.
    """
    counts = answer.get("usage")
    if not isinstance(counts, Mapping):
        return Usage()
    tier = "fast" if counts.get("speed") == "fast" else counts.get("service_tier")
    return Usage(
        cache_write_1h_tokens=_count(counts.get("cache_creation"), "ephemeral_1h_input_tokens"),
        searches=_count(counts.get("server_tool_use"), "web_search_requests"),
        service_tier=read_service_tier(tier) if isinstance(tier, str) else None,
    )


class AnthropicStream(BlockStream):
    """One streamed answer; see ``chat_shape.StreamTranslator``. ``created_s`` is a Unix time in seconds."""

    def __init__(self, model_slug: str, created_s: int, answer_id: str = "") -> None:
        super().__init__(model_slug, created_s, answer_id)
        self._counts: dict[str, Any] = {}
        self._refusal: str | None = None
        self._unsent_inputs: dict[int, Any] = {}  # of calls without a streamed argument so far

    def read(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the chunks of one event. Raises ValueError for an event that makes no sense."""
        try:
            reader = _EVENTS.get(event["type"])
            return reader(self, event) if reader else []
        except MALFORMED as error:
            raise ValueError("it is not an event of the API") from error

    @override
    def ignores(self, event: dict[str, Any]) -> bool:
        """Return whether it is a ``ping``, or of another kind that is not read."""
        return event["type"] not in _EVENTS

    @property
    @override
    def priced(self) -> Usage:
        """The counts that have a price, and no place in the chat shape."""
        return read_priced({"usage": self._counts})

    @property
    @override
    def has_finished(self) -> bool:
        """Whether the reason of the answer's end was read."""
        return self.is_closed or self._stop_reason is not None

    @override
    def _end(self) -> list[dict[str, Any]]:
        inputs = [made for index in list(self._unsent_inputs) for made in self._send_input(index)]
        delta = {"refusal": self._refusal} if self._refusal else {}
        reason = finish_reason(_FINISH_REASONS, self._stop_reason, has_calls=bool(self._calls))
        return [*inputs, chunk(self._identity, delta, reason)]

    def _message_start(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        message = event["message"]
        self._identity = Identity(
            text_of(message.get("id") or self._identity.id),
            self._identity.created_s,
            self._identity.model_slug,
        )
        self._read_counts(message.get("usage"), _RUNNING)
        return [chunk(self._identity, {"role": "assistant"})]

    def _block_start(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        index, block = event["index"], event["content_block"]
        match block["type"]:
            case "text":
                return self._send_text(index, block)
            case "thinking":
                return self._send_thinking(index, block) + self._send_signature(index, block)
            case "redacted_thinking":
                return [self._detail(index, _encrypted(block))]
            case "tool_use":
                call = self._calls.setdefault(index, len(self._calls))
                self._unsent_inputs[index] = block.get("input") or {}
                return [self._call(call, call_head(block["id"], block["name"]))]
        return []

    def _block_delta(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        delta = event["delta"]
        send = _DELTAS.get(delta["type"])
        return send(self, event["index"], delta) if send else []

    def _block_stop(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        return self._send_input(event["index"])

    def _message_delta(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        delta = event["delta"]
        if reason := delta.get("stop_reason"):
            self._stop_reason = text_of(reason)
        self._refusal = _refusal(delta) or self._refusal
        self._read_counts(event.get("usage"))
        return []

    def _message_stop(self, _event: dict[str, Any]) -> list[dict[str, Any]]:
        self.is_closed = True
        return []

    def _send_text(self, _index: int, part: dict[str, Any]) -> list[dict[str, Any]]:
        text = text_of(part["text"])
        return [chunk(self._identity, {"content": text})] if text else []

    def _send_thinking(self, index: int, part: dict[str, Any]) -> list[dict[str, Any]]:
        text = text_of(part["thinking"])
        return [self._detail(index, {"type": "reasoning.text", "text": text}, text)] if text else []

    def _send_signature(self, index: int, part: dict[str, Any]) -> list[dict[str, Any]]:
        signature = text_of(part.get("signature") or "")
        return [self._detail(index, {"type": "reasoning.text", "signature": signature})] if signature else []

    def _send_arguments(self, index: int, part: dict[str, Any]) -> list[dict[str, Any]]:
        text = text_of(part["partial_json"])
        if not text or index not in self._calls:
            return []  # Tools that the provider runs itself get arguments too.
        self._unsent_inputs.pop(index, None)
        return [self._call(self._calls[index], {"function": {"arguments": text}})]

    def _send_input(self, index: int) -> list[dict[str, Any]]:
        """Send an input that came whole with the start of its block. An empty input is an empty object."""
        if index not in self._unsent_inputs:
            return []
        arguments = encode_json(self._unsent_inputs.pop(index)).decode()
        return [self._call(self._calls[index], {"function": {"arguments": arguments}})]

    def _read_counts(self, counts: object, running: tuple[str, ...] = ()) -> None:
        """Read the counts that are final. A later count wins, and an absent one changes nothing."""
        for name, count in (counts if isinstance(counts, Mapping) else {}).items():
            if count is not None and name not in running:
                self._counts[name] = count
        self.usage = chat_usage(self._counts)


_EVENTS: Final[Mapping[object, Callable[[AnthropicStream, dict[str, Any]], list[dict[str, Any]]]]] = (
    MappingProxyType(
        {
            "message_start": AnthropicStream._message_start,
            "content_block_start": AnthropicStream._block_start,
            "content_block_delta": AnthropicStream._block_delta,
            "content_block_stop": AnthropicStream._block_stop,
            "message_delta": AnthropicStream._message_delta,
            "message_stop": AnthropicStream._message_stop,
        }
    )
)
_DELTAS: Final[Mapping[object, Callable[[AnthropicStream, int, dict[str, Any]], list[dict[str, Any]]]]] = (
    MappingProxyType(
        {
            "text_delta": AnthropicStream._send_text,
            "thinking_delta": AnthropicStream._send_thinking,
            "signature_delta": AnthropicStream._send_signature,
            "input_json_delta": AnthropicStream._send_arguments,
        }
    )
)


def _message(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    text = "".join([text_of(block["text"]) for block in blocks if block["type"] == "text"])
    calls = [
        whole_call(block["id"], block["name"], block.get("input"))
        for block in blocks
        if block["type"] == "tool_use"
    ]
    details = [_whole_detail(block) for block in blocks if block["type"] in ("thinking", "redacted_thinking")]
    return make_message(text, details, calls)


def _whole_detail(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "redacted_thinking":
        return _encrypted(block)
    signature = {"signature": block["signature"]} if block.get("signature") else {}
    return {"type": "reasoning.text", "text": text_of(block["thinking"]), **signature}


def _encrypted(block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "reasoning.encrypted", "data": text_of(block["data"])}


def _refusal(stopped: Mapping[str, Any]) -> str | None:
    """Return the provider's explanation of its refusal."""
    details = stopped.get("stop_details")
    explanation = details.get("explanation") if isinstance(details, dict) else None
    return explanation if isinstance(explanation, str) else None


def _count(counts: object, name: str) -> int | None:
    return read_count(counts.get(name)) if isinstance(counts, Mapping) else None


def _reported(**counts: int | None) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count is not None}
