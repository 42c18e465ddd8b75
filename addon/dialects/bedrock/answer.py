"""Answers of Amazon Bedrock's Converse API, whole and streamed, become chat answers. Pure.

Three things are left out: blocks of tools that the provider runs itself, the sources of citations, and members unknown
today. Source: Amazon Bedrock, API reference, "Converse" and "ConverseStream"; the service model of botocore 1.44.5;
recorded traffic.
"""

import base64
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, override

from addon.answers.usage import read_count, read_service_tier, sum_counts
from addon.dialects.chat_shape import Identity, choice, chunk, completion
from addon.dialects.content_blocks import (
    MALFORMED,
    BlockStream,
    Chunks,
    call_head,
    finish_reason,
    make_message,
    text_of,
    whole_call,
)
from policies.usage import Usage

_FINISH_REASONS: Final[Mapping[object, str]] = MappingProxyType(
    {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "tool_use": "tool_calls",
        "guardrail_intervened": "content_filter",
        "content_filtered": "content_filter",
    }
)
_SERVER_TOOL: Final = "server_tool_use"


def to_completion(
    answer: dict[str, Any], model_slug: str, created_s: int, answer_id: str = ""
) -> dict[str, Any]:
    """Return a whole answer as a chat completion. ``created_s`` is a Unix time in seconds.

    Converse gives its answers no id, so ``answer_id`` is the id. Raises ValueError for anything but an answer of the
    API.
    """
    try:
        message = _message(answer["output"]["message"]["content"])
        reason = finish_reason(_FINISH_REASONS, answer["stopReason"], has_calls="tool_calls" in message)
        usage = chat_usage(answer.get("usage") or {})
        return completion(Identity(answer_id, created_s, model_slug), [choice(message, reason)], usage)
    except MALFORMED as error:
        raise ValueError("it is not an answer of the API") from error


def chat_usage(counts: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the chat shape's usage block, or None when nothing is reported.

    ``prompt_tokens`` is the number of all input tokens; Bedrock counts those of the cache apart from the others. A
    count that Bedrock did not report is absent. Source: Amazon Bedrock, "TokenUsage"; recorded: the total is the sum.
    """
    uncached, written = read_count(counts.get("inputTokens")), read_count(counts.get("cacheWriteInputTokens"))
    read, produced = read_count(counts.get("cacheReadInputTokens")), read_count(counts.get("outputTokens"))
    usage: dict[str, Any] = {
        "prompt_tokens": None if uncached is None else sum_counts(uncached, read, written),
        "completion_tokens": produced,
        "total_tokens": read_count(counts.get("totalTokens")),
    }
    cache = {"cached_tokens": read, "cache_write_tokens": written}
    if cache := {name: count for name, count in cache.items() if count is not None}:
        usage["prompt_tokens_details"] = cache
    return {name: count for name, count in usage.items() if count is not None} or None


def read_priced(answer: Mapping[str, Any]) -> Usage:
    """Return the counts of a whole answer, or of a stream's metadata, that the chat shape has no place for.

    Source: Amazon Bedrock, "TokenUsage", "CacheDetail", "ServiceTier".
    """
    counts, tier = answer.get("usage"), answer.get("serviceTier")
    details = counts.get("cacheDetails") if isinstance(counts, Mapping) else None
    kept_long = [
        read_count(one.get("inputTokens"))
        for one in (details if isinstance(details, list) else ())
        if isinstance(one, Mapping) and one.get("ttl") == "1h"
    ]
    name = tier.get("type") if isinstance(tier, Mapping) else None
    return Usage(
        cache_write_1h_tokens=sum_counts(*kept_long) if kept_long else None,
        service_tier=read_service_tier(name) if isinstance(name, str) else None,
    )


class BedrockStream(BlockStream):
    """One streamed answer; see ``chat_shape.StreamTranslator``. ``created_s`` is a Unix time in seconds.

    An event is an object with one member: the type of the event, and its payload. The stream is closed after both the
    reason of the end and the usage: they are in the last two events.
    """

    def __init__(self, model_slug: str, created_s: int, answer_id: str = "") -> None:
        super().__init__(model_slug, created_s, answer_id)
        self._last: Mapping[str, Any] = {}
        self._without_input: dict[int, None] = {}  # calls without a streamed argument so far

    def read(self, event: dict[str, Any]) -> Chunks:
        """Return the chunks of one event. Raises ValueError for an event that makes no sense."""
        try:
            return [
                made
                for name, payload in event.items()
                if (reader := _EVENTS.get(name))
                for made in reader(self, payload)
            ]
        except MALFORMED as error:
            raise ValueError("it is not an event of the API") from error

    @override
    def _end(self) -> Chunks:
        inputs = [made for index in list(self._without_input) for made in self._send_empty_input(index)]
        reason = finish_reason(_FINISH_REASONS, self._stop_reason, has_calls=bool(self._calls))
        return [*inputs, chunk(self._identity, {}, reason)]

    def _message_start(self, _payload: dict[str, Any]) -> Chunks:
        return [chunk(self._identity, {"role": "assistant"})]

    def _block_start(self, payload: dict[str, Any]) -> Chunks:
        index, used = payload["contentBlockIndex"], payload["start"].get("toolUse")
        if used is None or used.get("type") == _SERVER_TOOL:
            return []
        call = self._calls.setdefault(index, len(self._calls))
        self._without_input[index] = None
        return [self._call(call, call_head(used["toolUseId"], used["name"]))]

    def _block_delta(self, payload: dict[str, Any]) -> Chunks:
        index = payload["contentBlockIndex"]
        return [
            made
            for name, part in payload["delta"].items()
            if (send := _DELTAS.get(name))
            for made in send(self, index, part)
        ]

    def _block_stop(self, payload: dict[str, Any]) -> Chunks:
        return self._send_empty_input(payload["contentBlockIndex"])

    def _message_stop(self, payload: dict[str, Any]) -> Chunks:
        self._stop_reason = text_of(payload["stopReason"])
        self.is_closed = self.usage is not None
        return []

    @property
    @override
    def priced(self) -> Usage:
        """The counts that have a price, and no place in the chat shape."""
        return read_priced(self._last)

    def _metadata(self, payload: dict[str, Any]) -> Chunks:
        self._last = payload
        self.usage = chat_usage(payload.get("usage") or {}) or self.usage
        self.is_closed = self.has_finished and self.usage is not None
        return []

    def _send_text(self, _index: int, text: object) -> Chunks:
        return [chunk(self._identity, {"content": text_of(text)})] if text else []

    def _send_reasoning(self, index: int, part: dict[str, Any]) -> Chunks:
        if text := text_of(part.get("text") or ""):
            return [self._detail(index, {"type": "reasoning.text", "text": text}, text)]
        if signature := text_of(part.get("signature") or ""):
            return [self._detail(index, {"type": "reasoning.text", "signature": signature})]
        sealed = _unsealed(part.get("redactedContent"))
        return [self._detail(index, {"type": "reasoning.encrypted", "data": sealed})] if sealed else []

    def _send_arguments(self, index: int, part: dict[str, Any]) -> Chunks:
        text = text_of(part["input"])
        if not text or index not in self._calls:
            return []  # Tools that the provider runs itself get arguments too.
        self._without_input.pop(index, None)
        return [self._call(self._calls[index], {"function": {"arguments": text}})]

    def _send_empty_input(self, index: int) -> Chunks:
        """Send the arguments of a call that got none: an empty object."""
        if index not in self._without_input:
            return []
        del self._without_input[index]
        return [self._call(self._calls[index], {"function": {"arguments": "{}"}})]


_EVENTS: Final[Mapping[str, Callable[[BedrockStream, dict[str, Any]], Chunks]]] = MappingProxyType(
    {
        "messageStart": BedrockStream._message_start,
        "contentBlockStart": BedrockStream._block_start,
        "contentBlockDelta": BedrockStream._block_delta,
        "contentBlockStop": BedrockStream._block_stop,
        "messageStop": BedrockStream._message_stop,
        "metadata": BedrockStream._metadata,
    }
)
_DELTAS: Final[Mapping[str, Callable[[BedrockStream, int, Any], Chunks]]] = MappingProxyType(
    {
        "text": BedrockStream._send_text,
        "toolUse": BedrockStream._send_arguments,
        "reasoningContent": BedrockStream._send_reasoning,
    }
)


def _message(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    text = "".join([_shown_text(block) for block in blocks])
    used = [block["toolUse"] for block in blocks if "toolUse" in block]
    calls = [
        whole_call(one["toolUseId"], one["name"], one.get("input"))
        for one in used
        if one.get("type") != _SERVER_TOOL
    ]
    details = [
        detail for block in blocks if (detail := _whole_detail(block.get("reasoningContent"))) is not None
    ]
    return make_message(text, details, calls)


def _shown_text(block: dict[str, Any]) -> str:
    """Return the text of a block. A cited text is a part of the answer."""
    if "citationsContent" in block:
        return "".join(
            [text_of(part.get("text") or "") for part in block["citationsContent"].get("content") or ()]
        )
    return text_of(block.get("text") or "")


def _whole_detail(content: dict[str, Any] | None) -> dict[str, Any] | None:
    if content is None:
        return None
    if (said := content.get("reasoningText")) is not None:
        signature = {"signature": said["signature"]} if said.get("signature") else {}
        return {"type": "reasoning.text", "text": text_of(said["text"]), **signature}
    sealed = _unsealed(content.get("redactedContent"))
    return {"type": "reasoning.encrypted", "data": sealed} if sealed else None


def _unsealed(sealed: object) -> str:
    """Return redacted reasoning as Anthropic's own API writes it, or "" for anything else.

    Converse encodes that text in base64 once more.
    """
    if not isinstance(sealed, str):
        return ""
    try:
        return base64.b64decode(sealed, validate=True).decode("ascii")
    except ValueError:
        return ""
