"""The content blocks of a streamed answer of the Messages API. Pure.

A block is opened, gets its text, and is closed. What comes before it is opened waits in it. Source: Anthropic,
"Streaming Messages"; "Extended thinking", "Streaming thinking".
"""

from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol

from addon.answers.normalize.tool_calls import Outline
from addon.apis.streamed_details import Details
from addon.dialects.opaque_reasoning import MAX_CHARS, seal, without_shown_text
from addon.text.json_encode import encode_json


class Block(Protocol):
    """One block of an answer."""

    waiting_chars: int
    """The length of the text that waits."""

    @property
    def may_close(self) -> bool:
        """Whether it ends as soon as another block waits for it."""

    def put(self, text: str) -> bytes:
        """Add text. Return the events that can be sent now."""

    def open(self, indexes: "count[int]") -> bytes:
        """Return the events of what has waited. The next of ``indexes`` is that of the block once it begins."""

    def close(self) -> bytes:
        """Return the last events."""


def event(kind: str, payload: bytes) -> bytes:
    """Return an event; ``payload`` is its JSON."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), payload)


class _TextBlock:
    """What the blocks have in common: a text of one kind, in deltas. It begins with its first event."""

    may_close = True

    def __init__(self, delta_type: str, name: str) -> None:
        self.waiting_chars = 0
        self._waiting: list[str] = []
        self._indexes: count[int] | None = None
        self._index = -1
        self._before = b""
        self._delta = encode_json({"type": delta_type, name: ""})[:-3]

    @property
    def has_begun(self) -> bool:
        """Whether its first event was made."""
        return bool(self._before)

    def put(self, text: str) -> bytes:
        if self._before:
            return self._send(text)
        self._waiting.append(text)
        self.waiting_chars += len(text)
        return self._try_begin()

    def open(self, indexes: "count[int]") -> bytes:
        self._indexes = indexes
        return self._try_begin()

    def close(self) -> bytes:
        return self._stop() if self._before else b""

    def _content_block(self) -> dict[str, Any] | None:
        """Return the block as it begins, None while that is not known."""
        raise NotImplementedError

    def _try_begin(self) -> bytes:
        if self._indexes is None or (block := self._content_block()) is None:
            return b""
        text, self._waiting, self.waiting_chars = "".join(self._waiting), [], 0
        begun = self._start(block)
        self._before = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":%b'
            % (
                self._index,
                self._delta,
            )
        )
        return begun + (self._send(text) if text else b"")

    def _send(self, text: str) -> bytes:
        return b"%b%b}}\n\n" % (self._before, encode_json(text))

    def _start(self, block: dict[str, Any]) -> bytes:
        if self._indexes is None:
            raise ValueError("a block that is not open")
        self._index = next(self._indexes)
        made = {"type": "content_block_start", "index": self._index, "content_block": block}
        return event("content_block_start", encode_json(made))

    def _stop(self) -> bytes:
        return event("content_block_stop", b'{"type":"content_block_stop","index":%d}' % self._index)


class TextBlock(_TextBlock):
    """The text of an answer. White space alone is no block: the API refuses one when it comes back."""

    def __init__(self) -> None:
        super().__init__("text_delta", "text")

    def _content_block(self) -> dict[str, Any] | None:
        is_blank = not any(map(str.strip, self._waiting))
        return None if is_blank else {"type": "text", "text": ""}


class ThinkingBlock(_TextBlock):
    """Reasoning, with its details sealed in the signature. Details without a text are a redacted block."""

    def __init__(self, details: Details) -> None:
        super().__init__("thinking_delta", "thinking")
        self.details = details
        self._text: list[str] = []
        """What was shown, so that the signature need not repeat it; nothing once it is long."""
        self._chars = 0

    def put(self, text: str) -> bytes:
        """See ``Block``."""
        self._chars += len(text)
        if self._chars <= MAX_CHARS:
            self._text.append(text)
        else:
            self._text.clear()
        return super().put(text)

    def close(self) -> bytes:
        """See ``Block``."""
        if self._before:
            details = without_shown_text(self.details.take(), "".join(self._text))
            delta = {"type": "signature_delta", "signature": seal(details)}
            made = {"type": "content_block_delta", "index": self._index, "delta": delta}
            return event("content_block_delta", encode_json(made)) + self._stop()
        if self.details.is_empty or not (sealed := seal(self.details.take())):
            return b""
        return self._start({"type": "redacted_thinking", "data": sealed}) + self._stop()

    def _content_block(self) -> dict[str, Any] | None:
        return {"type": "thinking", "thinking": "", "signature": ""} if self._waiting else None


class CallBlock(_TextBlock):
    """The call of a tool. It begins when its name is known, and ends with the last bracket of its arguments."""

    def __init__(self, call_id: str) -> None:
        super().__init__("input_json_delta", "partial_json")
        self._call_id, self._name = call_id, ""
        self._outline = Outline()
        self._is_closed = False

    @property
    def may_close(self) -> bool:  # type: ignore[override]
        """See ``Block``."""
        return bool(self._name) and self._outline.is_whole

    def name(self, name: str) -> None:
        """Set the name of the tool, once."""
        self._name = self._name or name

    def put(self, text: str) -> bytes:
        """See ``Block``. Raises ValueError for arguments after their end."""
        if self._is_closed:
            if text.strip():
                raise ValueError("arguments of a call that has ended")
            return b""
        self._outline.add(text)
        return super().put(text) if text or not self._before else b""

    def close(self) -> bytes:
        """See ``Block``."""
        begun = b"" if self._before or self._name else self._begin_unnamed()
        self._is_closed = True
        return begun + super().close()

    def _begin_unnamed(self) -> bytes:
        self._name = "unnamed"
        return self._try_begin()

    def _content_block(self) -> dict[str, Any] | None:
        known = {"type": "tool_use", "id": self._call_id, "name": self._name, "input": {}}
        return known if self._name else None


def waiting_chars(blocks: Sequence[Block]) -> int:
    """Return the length of all text that waits."""
    return sum([block.waiting_chars for block in blocks])
