"""Answers of content blocks become chat answers: what Anthropic's API and Amazon Bedrock have in common. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from addon.dialects.chat_shape import Identity, chunk, usage_chunk
from addon.text.json_encode import encode_json
from policies.usage import Usage

REASONING_FORMAT: Final = "anthropic-claude-v1"
"""The ``reasoning_details`` format that only Anthropic's models understand. Source: OpenRouter, "Reasoning Tokens"."""

MALFORMED: Final = (AttributeError, KeyError, TypeError)
"""The errors that a missing member, or one of another type, causes."""

type Chunks = list[dict[str, Any]]


class BlockStream:
    """The base of a streamed answer; see ``chat_shape.StreamTranslator``. ``created_s`` is a Unix time in seconds."""

    def __init__(self, model_slug: str, created_s: int, answer_id: str) -> None:
        self.is_closed = False
        self.usage: dict[str, Any] | None = None
        self._identity = Identity(answer_id, created_s, model_slug)
        self._stop_reason: object = None
        # One index counts all content blocks. These say which tool call, or which reasoning detail, a block is.
        self._calls: dict[int, int] = {}
        self._details: dict[int, int] = {}

    @property
    def has_finished(self) -> bool:
        """Whether the reason of the answer's end was read."""
        return self._stop_reason is not None

    kept_chars = 0
    """All content is sent at once."""

    @property
    def priced(self) -> Usage:
        """The counts that have a price, and no place in the chat shape."""
        raise NotImplementedError

    def ignores(self, _event: dict[str, Any]) -> bool:
        """Return False: each event is read."""
        return False

    def finish(self) -> Chunks:
        """Return what is left to send, the reason of the end, and the usage if there is one."""
        chunks = self._end() if self.has_finished else []
        return [*chunks, usage_chunk(self._identity, self.usage)] if self.usage else chunks

    def _end(self) -> Chunks:
        """Return what is left to send, and the reason of the end."""
        raise NotImplementedError

    def _call(self, call: int, members: dict[str, Any]) -> dict[str, Any]:
        return chunk(self._identity, {"tool_calls": [{"index": call, **members}]})

    def _detail(self, index: int, detail: dict[str, Any], text: str = "") -> dict[str, Any]:
        place = self._details.setdefault(index, len(self._details))
        details = [{**detail, "format": REASONING_FORMAT, "index": place}]
        content = {"reasoning_content": text} if text else {}
        return chunk(self._identity, {**content, "reasoning_details": details})


def make_message(text: str, details: Chunks, calls: Chunks) -> dict[str, Any]:
    """Return a whole message of text, reasoning and tool calls."""
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


def whole_call(call_id: object, name: object, arguments: object) -> dict[str, Any]:
    """Return a tool call with its arguments. Raises TypeError for an id or a name that is no text."""
    head = call_head(call_id, name)
    head["function"]["arguments"] = encode_json(arguments or {}).decode()
    return head


def call_head(call_id: object, name: object) -> dict[str, Any]:
    """Return a tool call without arguments. Raises TypeError for an id or a name that is no text."""
    function = {"name": text_of(name), "arguments": ""}
    return {"id": text_of(call_id), "type": "function", "function": function}


def finish_reason(known: Mapping[object, str], stop_reason: object, *, has_calls: bool) -> str:
    """Return the chat shape's word. For a reason unknown today, the content decides."""
    return known.get(stop_reason) or ("tool_calls" if has_calls else "stop")


def text_of(value: object) -> str:
    """Return a text. Raises TypeError for another value."""
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value
