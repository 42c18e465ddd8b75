"""A chat answer, whole or streamed, in the shape of OpenAI's Responses API. Pure.

A stream begins with ``response.created`` and ``response.in_progress``, and has one open item at a time: a tool call
whose arguments come in turns with those of another waits. At the end comes the whole answer once more. Source:
docs/apis-responses.md; OpenAI, "Streaming events"; recorded streams.
"""

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from addon.apis.responses.calls import CallItem, PictureItem
from addon.apis.responses.custom_tools import Tool
from addon.apis.responses.delta import (
    TextPiece,
    annotations_in,
    call_piece,
    objects_in,
    pictures_in,
    reasoning_kind,
    text_pieces,
)
from addon.apis.responses.events import EventLog
from addon.apis.responses.items import Item, MessageItem, PartsItem, ReasoningItem
from addon.apis.responses.response import ResponseForm, make_usage
from addon.apis.responses.text_part import TextPart
from addon.apis.streamed_details import Details, details_of
from addon.apis.writer import WriterContext
from policies.usage import Usage

MAX_ITEMS: Final = 1_024
MAX_CHARS: Final = 32 * 1024 * 1024
"""The most text of one answer, which is kept, because it comes once more. No model writes a quarter of it."""

_INCOMPLETE: Final = MappingProxyType({"length": "max_output_tokens", "content_filter": "content_filter"})
_LIVE: Final = MappingProxyType(
    {"output_text": "content", "reasoning_text": "reasoning_content", "refusal": "refusal"}
)
"""The kinds of parts whose pieces are the only member of most deltas, and the name of that member."""


class ResponsesWriter:
    """Writes the chunks of one stream as events; see ``writer.StreamWriter``."""

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._form = ResponseForm(context)
        self._tools = self._form.tools
        self._log = EventLog()
        self._items: deque[Item] = deque()
        """Those that are not closed. The first one is open, the others wait for it."""
        self._opened = 0
        self._output: list[dict[str, Any]] = []
        self._calls: dict[int, CallItem] = {}
        self._late_details = Details()
        """Details that came when no reasoning was the last item."""
        self._finish_reason: str | None = None
        self._service_tier: str | None = None
        self._chars = 0
        self._live: dict[str, TextPart] = {}
        """The open part by the name of its member, while nothing waits for it."""
        self.response = b""
        """The whole answer, once it is complete."""

    @property
    def events_sent(self) -> int:
        """How many events were made."""
        return self._log.sent

    def write(self, chunk: dict[str, Any]) -> bytes:
        """Return the events for one chunk. Raises ValueError for an answer that exceeds a bound."""
        choices = chunk["choices"]
        delta = choices[0]["delta"] if choices else {}
        if len(delta) == 1 and self._live and (sent := self._write_live(choices, delta)):
            return sent
        begun = b"" if self._log.sent else self._begin()
        if isinstance(tier := chunk.get("service_tier"), str):
            self._service_tier = tier
        chosen = [choice for choice in choices if choice.get("index", 0) == 0]
        sent = begun + b"".join([piece for choice in chosen for piece in self._write_choice(choice)])
        self._live = self._find_live()
        if self._chars > MAX_CHARS or len(self._output) + len(self._items) > MAX_ITEMS:
            raise ValueError("an answer that is too long")
        return sent

    def finish(self, usage: Usage | None) -> bytes:
        """Return the last events."""
        sent = [b"" if self._log.sent else self._begin()]
        if not self._late_details.is_empty:
            sent.append(self._push_reasoning(""))
        if not (self._items or self._output):
            sent += [self._push(message := self._message()), message.put("output_text", "")]
        reason = _INCOMPLETE.get(self._finish_reason or "")
        while self._items:
            is_last = len(self._items) == 1
            sent.append(self._close_first("incomplete" if reason and is_last else "completed"))
        status = "incomplete" if reason else "completed"
        self.response = self._form.encode(
            "incomplete" if reason else "completed",
            self._output,
            usage=make_usage(usage, self._context, self._chars),
            service_tier=usage.service_tier if usage and usage.service_tier else self._service_tier,
            incomplete_reason=reason,
        )
        return b"".join([*sent, self._log.add_response(f"response.{status}", self.response)])

    def _begin(self) -> bytes:
        response = self._form.encode("in_progress")
        kinds = ("response.created", "response.in_progress")
        return b"".join([self._log.add_response(kind, response) for kind in kinds])

    # Deltas.

    def _write_live(self, choices: list[dict[str, Any]], delta: dict[str, Any]) -> bytes:
        """Return the event of the next piece of the open text; nothing when the chunk has more."""
        ((name, text),) = delta.items()
        choice = choices[0]
        part = self._live.get(name)
        is_plain = not (choice.get("finish_reason") or choice.get("logprobs") or choice.get("index"))
        if part is None or not (text and is_plain) or type(text) is not str or self._chars > MAX_CHARS:
            return b""
        self._chars += len(text)
        return part.add(text)

    def _find_live(self) -> dict[str, TextPart]:
        first = self._items[0] if len(self._items) == 1 else None
        part = first.part if isinstance(first, PartsItem) else None
        name = _LIVE.get(part.kind) if part else None
        return {name: part} if part and name else {}

    def _write_choice(self, choice: dict[str, Any]) -> list[bytes]:
        delta = choice["delta"]
        sent = [self._write_reasoning(delta)]
        sent += [self._write_text(piece) for piece in text_pieces(choice)]
        sent += [self._annotate(one) for one in annotations_in(delta)]
        sent += [self._push(PictureItem(self._context.call_id, data)) for data in pictures_in(delta)]
        sent += [self._write_call(call) for call in objects_in(delta, "tool_calls")]
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        return sent

    def _write_reasoning(self, delta: dict[str, Any]) -> bytes:
        details = details_of(delta)
        last = self._items[-1] if self._items else None
        sent, text = b"", delta.get("reasoning_content") or ""
        kind = reasoning_kind(details)
        if text and not (isinstance(last, ReasoningItem) and last.kind in ("", kind)):
            sent = self._push_reasoning(kind)
            last = self._items[-1]
        if details:
            holder = last.details if isinstance(last, ReasoningItem) else self._late_details
            holder.add(details)
        if text and isinstance(last, ReasoningItem):
            self._chars += len(text)
            last.kind = last.kind or kind
            sent += last.put(kind, text)
        return sent

    def _write_text(self, piece: TextPiece) -> bytes:
        self._chars += len(piece.text)
        sent, message = self._last_message()
        return sent + message.put(piece.kind, piece.text, piece.logprobs)

    def _annotate(self, annotation: dict[str, Any]) -> bytes:
        sent, message = self._last_message()
        return sent + message.put("output_text", "", annotation)

    def _write_call(self, call: Mapping[str, Any]) -> bytes:
        number, call_id, name, piece = call_piece(call)
        self._chars += len(piece)
        sent, item = b"", self._calls.get(number)
        if item is None:
            if not self._late_details.is_empty:
                sent = self._push_reasoning("")
            made_id = call_id or f"call_{self._context.call_id}_{number}"
            item = self._calls[number] = CallItem(self._context.call_id, made_id)
            sent += self._push(item)
        if name and not item.has_name:
            item.name_tool(self._tools.get(name) or Tool("function_call", name))
        return sent + item.put(piece) + self._advance()

    # Items.

    def _message(self) -> MessageItem:
        return MessageItem(self._context.call_id)

    def _last_message(self) -> tuple[bytes, MessageItem]:
        """Return the message that text belongs to, with the events of its beginning if it is new."""
        last = self._items[-1] if self._items else None
        if isinstance(last, MessageItem):
            return b"", last
        message = self._message()
        return self._push(message), message

    def _push_reasoning(self, kind: str) -> bytes:
        details, self._late_details = self._late_details, Details()
        return self._push(ReasoningItem(self._context.call_id, kind, details))

    def _push(self, item: Item) -> bytes:
        """Add an item. Return the events of those that can end now, and of those that begin."""
        self._items.append(item)
        if len(self._items) == 1:
            return self._open_first()
        return self._advance()

    def _advance(self) -> bytes:
        """Close the first item as long as another one waits for it, and it is complete."""
        sent = []
        while len(self._items) > 1 and self._items[0].may_close:
            sent.append(self._close_first("completed"))
        return b"".join(sent)

    def _open_first(self) -> bytes:
        self._opened += 1
        return self._items[0].open(self._log, self._opened - 1)

    def _close_first(self, status: str) -> bytes:
        """Close the first item, and open the next one if one waits."""
        item = self._items.popleft()
        sent = item.close(status)
        self._output.append(item.value)
        return sent + (self._open_first() if self._items else b"")


def write_whole(completion: dict[str, Any], usage: Usage | None, context: WriterContext) -> bytes:
    """Return the whole answer for a chat completion: what a stream of the same answer ends with."""
    writer = ResponsesWriter(context)
    choice = completion["choices"][0]
    message = dict(choice["message"])
    message["tool_calls"] = [
        {**call, "index": number} for number, call in enumerate(message.get("tool_calls") or ())
    ]
    chunk = {**choice, "index": 0, "delta": message}
    writer.write({"choices": [chunk], "service_tier": completion.get("service_tier")})
    writer.finish(usage)
    return writer.response
