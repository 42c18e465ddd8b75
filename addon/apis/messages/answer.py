"""A chat answer, whole or streamed, in the shape of Anthropic's Messages API. Pure.

A stream has one open block at a time: what comes in turns with it waits. Source: docs/apis-messages.md; Anthropic,
"Streaming Messages"; recorded streams.
"""

from collections import deque
from collections.abc import Mapping
from itertools import count
from typing import Any, Final

from addon.answers.whole import BILLING_NOTE
from addon.apis.messages.answer_blocks import Block, CallBlock, TextBlock, ThinkingBlock, event, waiting_chars
from addon.apis.messages.answer_usage import make_stop, make_usage, whole_usage
from addon.apis.streamed_details import Details, details_of
from addon.apis.writer import WriterContext
from addon.dialects.opaque_reasoning import seal, without_shown_text
from addon.text.json_decode import decode_object
from addon.text.json_encode import encode_json
from policies.refusal import Refusal
from policies.usage import Usage

MAX_WAITING: Final = 1_024
"""How many blocks may wait for another one to end."""
MAX_WAITING_CHARS: Final = 4 * 1024 * 1024

INVALID_JSON: Final = "INVALID_JSON"
"""The member that holds arguments which are no object. Source: Anthropic, "Fine-grained tool streaming"."""

_STOP: Final = event("message_stop", b'{"type":"message_stop"}')
_PING: Final = event("ping", b'{"type":"ping"}')


class MessagesWriter:
    """Writes the chunks of one stream as events; see ``writer.StreamWriter``."""

    def __init__(self, context: WriterContext) -> None:
        self.events_sent = 0
        self._context = context
        self._indexes = count()
        self._blocks: deque[Block] = deque()
        """Those that are not closed. The first one is open, the others wait for it."""
        self._calls: dict[int, CallBlock] = {}
        self._late_details = Details()
        """Details that came when no thinking was the last block."""
        self._live: dict[str, Block] = {}
        """The open block by the member of a delta that goes to it at once."""
        self._end: dict[str, Any] = {}
        """What the choice says about its end."""
        self._refusal: list[str] = []
        self._chars = 0

    def write(self, chunk: dict[str, Any]) -> bytes:
        """Return the events for one chunk. Raises ValueError for an answer that exceeds a bound."""
        choices = chunk["choices"]
        if self._live and len(choices) == 1 and (sent := self._write_live(choices[0])):
            return sent
        sent = b"" if self.events_sent else self._begin()
        for choice in choices:
            if not choice.get("index"):
                sent += self._write_choice(choice)
        if len(self._blocks) > MAX_WAITING or waiting_chars(self._blocks) > MAX_WAITING_CHARS:
            raise ValueError("an answer whose parts are mixed")
        self._live = self._find_live()
        self.events_sent += sent.count(b"\n\n")
        return sent

    def finish(self, usage: Usage | None) -> bytes:
        """Return the last events."""
        sent = b"" if self.events_sent else self._begin()
        sent += self._push_late_details()
        while self._blocks:
            sent += self._close_first()
        stop = make_stop(
            self._end,
            self._context.request,
            has_calls=bool(self._calls),
            refusal="".join(self._refusal),
        )
        counts = make_usage(usage, self._context.prompt_tokens, self._chars)
        delta = {"type": "message_delta", "delta": stop, "usage": counts}
        sent += event("message_delta", encode_json(delta)) + _STOP
        self.events_sent += sent.count(b"\n\n")
        return sent

    def _begin(self) -> bytes:
        usage = make_usage(None, self._context.prompt_tokens, 1)
        message = {**_head(self._context), "content": [], "stop_reason": None, "stop_sequence": None}
        start = {"type": "message_start", "message": {**message, "usage": usage}}
        return event("message_start", encode_json(start)) + _PING

    # Deltas.

    def _write_live(self, choice: dict[str, Any]) -> bytes:
        """Return the event of the next piece of the open text; nothing when the choice says more."""
        delta = choice["delta"]
        if len(delta) != 1 or choice.get("finish_reason") or choice.get("index"):
            return b""
        ((name, text),) = delta.items()
        block = self._live.get(name)
        if block is None or not text or type(text) is not str:
            return b""
        self._chars += len(text)
        self.events_sent += 1
        return block.put(text)

    def _find_live(self) -> dict[str, Block]:
        if len(self._blocks) != 1:
            return {}
        block = self._blocks[0]
        if isinstance(block, TextBlock) and block.has_begun and not self._refusal:
            return {"content": block}
        return {"reasoning_content": block} if isinstance(block, ThinkingBlock) and block.has_begun else {}

    def _write_choice(self, choice: dict[str, Any]) -> bytes:
        delta = choice["delta"]
        sent = self._write_reasoning(delta)
        for name in ("content", "refusal"):
            if (text := delta.get(name)) and isinstance(text, str):
                sent += self._write_text(text)
                if name == "refusal":
                    self._refusal.append(text)
        for call in delta.get("tool_calls") or ():
            sent += self._write_call(call)
        self._end |= {name: choice[name] for name in _END_MEMBERS if choice.get(name)}
        return sent

    def _write_reasoning(self, delta: dict[str, Any]) -> bytes:
        details = details_of(delta)
        text = delta.get("reasoning_content")
        last, sent = self._blocks[-1] if self._blocks else None, b""
        if text and not isinstance(last, ThinkingBlock):
            last, sent = self._push_thinking()
        (last.details if isinstance(last, ThinkingBlock) else self._late_details).add(details)
        if text and isinstance(text, str) and isinstance(last, ThinkingBlock):
            self._chars += len(text)
            sent += last.put(text)
        return sent

    def _write_text(self, text: str) -> bytes:
        self._chars += len(text)
        last, sent = self._blocks[-1] if self._blocks else None, b""
        if not isinstance(last, TextBlock):
            sent = self._push_late_details()
            last = TextBlock()
            sent += self._push(last)
        return sent + last.put(text)

    def _write_call(self, call: Mapping[str, Any]) -> bytes:
        number, call_id, name, piece = _call_piece(call)
        self._chars += len(piece)
        sent, block = b"", self._calls.get(number)
        if block is None:
            sent = self._push_late_details()
            block = self._calls[number] = CallBlock(call_id or f"toolu_{self._context.call_id}_{number}")
            sent += self._push(block)
        if name:
            block.name(name)
        return sent + block.put(piece) + self._advance()

    # Blocks.

    def _push_thinking(self) -> tuple[ThinkingBlock, bytes]:
        details, self._late_details = self._late_details, Details()
        block = ThinkingBlock(details)
        return block, self._push(block)

    def _push_late_details(self) -> bytes:
        return b"" if self._late_details.is_empty else self._push_thinking()[1]

    def _push(self, block: Block) -> bytes:
        """Add a block. Return the events of those that can end now, and of those that begin."""
        self._blocks.append(block)
        return block.open(self._indexes) if len(self._blocks) == 1 else self._advance()

    def _advance(self) -> bytes:
        """Close the first block as long as another one waits for it, and it is complete."""
        sent = b""
        while len(self._blocks) > 1 and self._blocks[0].may_close:
            sent += self._close_first()
        return sent

    def _close_first(self) -> bytes:
        sent = self._blocks.popleft().close()
        return sent + (self._blocks[0].open(self._indexes) if self._blocks else b"")


_END_MEMBERS: Final = ("finish_reason", "stop_reason", "matched_stop")


def write_whole(completion: dict[str, Any], usage: Usage | None, context: WriterContext) -> bytes:
    """Return the whole answer for a chat completion."""
    choice = completion["choices"][0]
    message = choice["message"]
    refusal = given if isinstance(given := message.get("refusal"), str) else ""
    calls = [_whole_call(call, at, context) for at, call in enumerate(message.get("tool_calls") or ())]
    texts = [{"type": "text", "text": text} for text in (message.get("content"), refusal) if _is_shown(text)]
    content = [*_thinking(message), *texts, *calls]
    counts = whole_usage(usage, make_usage(usage, context.prompt_tokens, len(encode_json(content))))
    stop = make_stop(choice, context.request, has_calls=bool(calls), refusal=refusal)
    return encode_json({**_head(context), "content": content, **stop, "usage": counts})


def _head(context: WriterContext) -> dict[str, Any]:
    return {
        "id": f"msg_{context.call_id}",
        "type": "message",
        "role": "assistant",
        "model": context.model_slug,
    }


def _thinking(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    details = details_of(message)
    text = message.get("reasoning_content")
    if isinstance(text, str) and text and text != BILLING_NOTE:
        return [{"type": "thinking", "thinking": text, "signature": seal(without_shown_text(details, text))}]
    sealed = seal(details) if details else ""
    return [{"type": "redacted_thinking", "data": sealed}] if sealed else []


def _is_shown(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _whole_call(call: Mapping[str, Any], number: int, context: WriterContext) -> dict[str, Any]:
    _, call_id, name, arguments = _call_piece({"index": number, **call})
    try:
        given: dict[str, Any] = decode_object(arguments.encode()) if arguments.strip() else {}
    except (Refusal, UnicodeEncodeError):
        given = {INVALID_JSON: arguments}
    made_id = call_id or f"toolu_{context.call_id}_{number}"
    return {"type": "tool_use", "id": made_id, "name": name, "input": given}


def _call_piece(call: Mapping[str, Any]) -> tuple[int, str, str, str]:
    """Return the number of a call, its id, its name and a piece of its arguments; empty for those that lack."""
    body = call.get("function") or call.get("custom") or {}
    texts = (call.get("id"), body.get("name"), body.get("arguments") or body.get("input"))
    call_id, name, piece = (text if isinstance(text, str) else "" for text in texts)
    return call["index"], call_id, name, piece
