"""Answers of Amazon Bedrock's Converse API, whole and streamed, become chat answers. Pure.

Three things are left out: blocks of tools that the provider runs itself, the sources of citations, and members unknown
today. Source: Amazon Bedrock, API reference, "Converse" and "ConverseStream"; the service model of botocore 1.44.5;
recorded traffic.
"""

import base64
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from addon.answers.usage import read_count, sum_counts
from addon.dialects.anthropic.answer import REASONING_FORMAT
from addon.dialects.chat_shape import Identity, choice, chunk, completion, usage_chunk
from addon.text.json_encode import encode_json

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
# The errors that a missing member, or one of another type, causes.
_MALFORMED: Final = (AttributeError, KeyError, TypeError)

type Chunks = list[dict[str, Any]]


def to_completion(
    answer: dict[str, Any], model_slug: str, created_s: int, answer_id: str = ""
) -> dict[str, Any]:
    """Return a whole answer as a chat completion. ``created_s`` is a Unix time in seconds.

    Converse gives its answers no id, so ``answer_id`` is the id. Raises ValueError for anything but an answer of the
    API.
    """
    try:
        message = _message(answer["output"]["message"]["content"])
        reason = _finish_reason(answer["stopReason"], has_calls="tool_calls" in message)
        usage = chat_usage(answer.get("usage") or {})
        return completion(Identity(answer_id, created_s, model_slug), [choice(message, reason)], usage)
    except _MALFORMED as error:
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


class BedrockStream:
    """One streamed answer; see ``chat_shape.StreamTranslator``. ``created_s`` is a Unix time in seconds.

    An event is an object with one member: the type of the event, and its payload.
    """

    def __init__(self, model_slug: str, created_s: int, answer_id: str = "") -> None:
        self.is_closed = False
        """Both the reason of the end and the usage were read. They are in the last two events."""
        self.usage: dict[str, Any] | None = None
        self._identity = Identity(answer_id, created_s, model_slug)
        self._stop_reason: object = None
        # One index counts all content blocks. These say which tool call, or which reasoning detail, a block is.
        self._calls: dict[int, int] = {}
        self._details: dict[int, int] = {}
        self._without_input: set[int] = set()  # calls without a streamed argument so far

    @property
    def has_finished(self) -> bool:
        """Whether the reason of the answer's end was read."""
        return self._stop_reason is not None

    def read(self, event: dict[str, Any]) -> Chunks:
        """Return the chunks of one event. Raises ValueError for an event that makes no sense."""
        try:
            return [
                made
                for name, payload in event.items()
                if (reader := _EVENTS.get(name))
                for made in reader(self, payload)
            ]
        except _MALFORMED as error:
            raise ValueError("it is not an event of the API") from error

    def finish(self) -> Chunks:
        """Return what is left to send, the reason of the end, and the usage if there is one."""
        chunks = self._end() if self.has_finished else []
        return [*chunks, usage_chunk(self._identity, self.usage)] if self.usage else chunks

    def _end(self) -> Chunks:
        inputs = [made for index in sorted(self._without_input) for made in self._send_empty_input(index)]
        reason = _finish_reason(self._stop_reason, has_calls=bool(self._calls))
        return [*inputs, chunk(self._identity, {}, reason)]

    def _message_start(self, _payload: dict[str, Any]) -> Chunks:
        return [chunk(self._identity, {"role": "assistant"})]

    def _block_start(self, payload: dict[str, Any]) -> Chunks:
        index, used = payload["contentBlockIndex"], payload["start"].get("toolUse")
        if used is None or used.get("type") == _SERVER_TOOL:
            return []
        call = self._calls.setdefault(index, len(self._calls))
        self._without_input.add(index)
        return [self._call(call, _call_head(used))]

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
        self._stop_reason = _text(payload["stopReason"])
        self.is_closed = self.usage is not None
        return []

    def _metadata(self, payload: dict[str, Any]) -> Chunks:
        self.usage = chat_usage(payload.get("usage") or {}) or self.usage
        self.is_closed = self.has_finished and self.usage is not None
        return []

    def _send_text(self, _index: int, text: object) -> Chunks:
        return [chunk(self._identity, {"content": _text(text)})] if text else []

    def _send_reasoning(self, index: int, part: dict[str, Any]) -> Chunks:
        if text := _text(part.get("text") or ""):
            return [self._detail(index, {"type": "reasoning.text", "text": text}, text)]
        if signature := _text(part.get("signature") or ""):
            return [self._detail(index, {"type": "reasoning.text", "signature": signature})]
        sealed = _unsealed(part.get("redactedContent"))
        return [self._detail(index, {"type": "reasoning.encrypted", "data": sealed})] if sealed else []

    def _send_arguments(self, index: int, part: dict[str, Any]) -> Chunks:
        text = _text(part["input"])
        if not text or index not in self._calls:
            return []  # Tools that the provider runs itself get arguments too.
        self._without_input.discard(index)
        return [self._call(self._calls[index], {"function": {"arguments": text}})]

    def _send_empty_input(self, index: int) -> Chunks:
        """Send the arguments of a call that got none: an empty object."""
        if index not in self._without_input:
            return []
        self._without_input.discard(index)
        return [self._call(self._calls[index], {"function": {"arguments": "{}"}})]

    def _call(self, call: int, members: dict[str, Any]) -> dict[str, Any]:
        return chunk(self._identity, {"tool_calls": [{"index": call, **members}]})

    def _detail(self, index: int, detail: dict[str, Any], text: str = "") -> dict[str, Any]:
        place = self._details.setdefault(index, len(self._details))
        details = [{**detail, "format": REASONING_FORMAT, "index": place}]
        content = {"reasoning_content": text} if text else {}
        return chunk(self._identity, {**content, "reasoning_details": details})


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
    calls = [_whole_call(one) for one in used if one.get("type") != _SERVER_TOOL]
    details = [
        detail for block in blocks if (detail := _whole_detail(block.get("reasoningContent"))) is not None
    ]
    message: dict[str, Any] = {"role": "assistant", "content": text if text or not calls else None}
    if reasoning := "".join([detail.get("text", "") for detail in details]):
        message["reasoning_content"] = reasoning
    if details:
        message["reasoning_details"] = [
            {**detail, "format": REASONING_FORMAT, "index": index} for index, detail in enumerate(details)
        ]
    if calls:
        message["tool_calls"] = calls
    return message


def _shown_text(block: dict[str, Any]) -> str:
    """Return the text of a block. A cited text is a part of the answer."""
    if "citationsContent" in block:
        return "".join(
            [_text(part.get("text") or "") for part in block["citationsContent"].get("content") or ()]
        )
    return _text(block.get("text") or "")


def _whole_detail(content: dict[str, Any] | None) -> dict[str, Any] | None:
    if content is None:
        return None
    if (said := content.get("reasoningText")) is not None:
        signature = {"signature": said["signature"]} if said.get("signature") else {}
        return {"type": "reasoning.text", "text": _text(said["text"]), **signature}
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


def _whole_call(used: dict[str, Any]) -> dict[str, Any]:
    head = _call_head(used)
    head["function"]["arguments"] = encode_json(used.get("input") or {}).decode()
    return head


def _call_head(used: dict[str, Any]) -> dict[str, Any]:
    function = {"name": _text(used["name"]), "arguments": ""}
    return {"id": _text(used["toolUseId"]), "type": "function", "function": function}


def _finish_reason(stop_reason: object, *, has_calls: bool) -> str:
    """Return the chat shape's word. For a reason unknown today, the content decides."""
    return _FINISH_REASONS.get(stop_reason) or ("tool_calls" if has_calls else "stop")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value
