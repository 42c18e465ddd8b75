"""The items of an answer: each writes its events, and waits while the one before it is not complete. Pure.

A stream has one open item at a time. Source: the grammar of recorded streams; OpenAI, "Streaming events".
"""

from typing import Any, Final, Protocol

from addon.apis.responses.events import EventLog
from addon.apis.responses.text_part import TextPart
from addon.apis.streamed_details import Details
from addon.dialects.opaque_reasoning import seal

ADDED: Final = "response.output_item.added"
DONE: Final = "response.output_item.done"


class Item(Protocol):
    """One item. What is put into it before ``open`` waits; ``value`` is the whole item once it is closed."""

    value: dict[str, Any]

    @property
    def may_close(self) -> bool:
        """Whether nothing more belongs to it once another item has begun."""

    def open(self, log: EventLog, output_index: int) -> bytes:
        """Return the events that begin the item, with what has waited."""

    def close(self, status: str) -> bytes:
        """Return the events that end the item. ``status`` is ``completed`` or ``incomplete``."""


def make_id(prefix: str, answer_id: str, output_index: int) -> str:
    """Return the id of an item, which is the same in all its events. OpenAI takes it back: it has the right prefix."""
    return f"{prefix}_{answer_id}_{output_index}"


class PartsItem:
    """A message, or reasoning: an item whose parts are texts, one after another."""

    may_close = True

    prefix: str

    def __init__(self, answer_id: str) -> None:
        self.value: dict[str, Any] = {}
        self.part: TextPart | None = None
        """The open part, once the item is open."""
        self._id, self._answer_id = "", answer_id
        self._log, self._output_index = EventLog(), 0
        self._is_open = False
        self._parts: list[TextPart] = []
        self._waiting: list[tuple[str, str, Any]] = []

    def put(self, kind: str, text: str, extra: Any = None) -> bytes:
        """Add a piece of text to the part of this kind, or an annotation, which comes with an empty text.

        ``extra`` is the annotation, or the log-probabilities of the piece.
        """
        if not self._is_open:
            self._waiting.append((kind, text, extra))
            return b""
        begun = self._part(kind)
        part = self._parts[-1]
        if isinstance(extra, dict):
            return begun + part.annotate(extra)
        return begun + (part.add_with_logprobs(text, extra) if extra else part.add(text) if text else b"")

    def open(self, log: EventLog, output_index: int) -> bytes:
        """Return the events that begin the item, with what has waited."""
        self._log, self._output_index, self._is_open = log, output_index, True
        self._id = make_id(self.prefix, self._answer_id, output_index)
        waiting, self._waiting = self._waiting, []
        added = log.add(ADDED, item=self._shell(), output_index=output_index)
        return added + b"".join([self.put(*one) for one in waiting])

    def close(self, status: str) -> bytes:
        """Return the events that end the item."""
        ended = self.part.close() if self.part else b""
        self.part = None
        self.value = self._whole(status)
        return ended + self._log.add(DONE, item=self.value, output_index=self._output_index)

    def _part(self, kind: str) -> bytes:
        """Have a part of this kind open. Return the events for that."""
        if self.part is not None and self.part.kind == kind:
            return b""
        ended = self.part.close() if self.part else b""
        self.part = TextPart(self._log, kind, self._id, self._output_index, len(self._parts))
        self._parts.append(self.part)
        return ended + self.part.open()

    def _shell(self) -> dict[str, Any]:
        raise NotImplementedError

    def _whole(self, status: str) -> dict[str, Any]:
        raise NotImplementedError


class MessageItem(PartsItem):
    """A message. Its parts are ``output_text`` and ``refusal``."""

    prefix = "msg"

    def _shell(self) -> dict[str, Any]:
        return self._message([], "in_progress")

    def _whole(self, status: str) -> dict[str, Any]:
        return self._message([part.value for part in self._parts], status)

    def _message(self, content: list[dict[str, Any]], status: str) -> dict[str, Any]:
        return {"id": self._id, "type": "message", "status": status, "content": content, "role": "assistant"}


class ReasoningItem(PartsItem):
    """Reasoning: parts of one kind, ``reasoning_text`` or ``summary_text``, and what its provider wants back.

    ``encrypted_content`` is always there: the gateway keeps nothing, so it is the only way for it to come back.
    """

    prefix = "rs"

    def __init__(self, answer_id: str, kind: str, details: Details) -> None:
        super().__init__(answer_id)
        self.kind, self.details = kind, details

    def _shell(self) -> dict[str, Any]:
        return self._reasoning([])

    def _whole(self, _status: str) -> dict[str, Any]:
        parts = [part.value for part in self._parts]
        text = "".join([part["text"] for part in parts])
        details = self.details.take() or [{"type": "reasoning.text", "text": text}]
        sealed = seal(details)
        return self._reasoning(parts) | ({"encrypted_content": sealed} if sealed else {})

    def _reasoning(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        shown: dict[str, Any] = {"summary": parts} if self.kind == "summary_text" else {"summary": []}
        if self.kind == "reasoning_text":
            shown["content"] = parts
        return {"id": self._id, "type": "reasoning", **shown}
