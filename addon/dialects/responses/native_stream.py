"""The events of a stream of the Responses API for its own clients: they go as they come. Pure.

The response in them gets the catalog slug as its model. The first events say nothing of the answer, so they wait: while
the client has none of them, another provider may answer.
"""

import re
from typing import Any, Final

from addon.answers.bounds import FailedStreamError
from addon.answers.chunk_template import MAX_MISSES, Filled
from addon.answers.context import AnswerContext, encode_slug
from addon.answers.stream_body import CUT, NOT_UNDERSTOOD
from addon.answers.stream_chunks import Event
from addon.dialects.responses.native_answer import (
    count_searches,
    find_failure,
    finish_reason,
    item_chars,
    read_usage,
)
from addon.dialects.responses.native_events import whole_event, with_model
from addon.dialects.responses.native_secrets import DeltaSecrets
from addon.dialects.responses.native_template import DeltaTemplate, delta_template
from policies.usage import Usage

MAX_ITEMS: Final = 4_096
"""How many items may be open at a time."""

_BEGIN: Final = ("response.created", "response.queued", "response.in_progress")
_END: Final = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_NUMBER: Final = re.compile(rb'"sequence_number":[ ]?([0-9]{1,16})')
_SIGNS_OF_LIFE: Final = ("keepalive", "ping")


class NativeEvents:
    """The events of one stream; see ``stream_chunks.Chunks``.

    The stream ends with the response. What some providers send after it is theirs: [DONE], the rates of their key.
    """

    end = b""

    def __init__(self, context: AnswerContext) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.text_chars = 0
        self.kept_chars = 0
        """The length of content that is no text of the model: the first events, the results of tools."""
        self.is_closed = False
        self.has_begun = False
        self._context = context
        self._model = encode_slug(context.model_slug)
        self._first: list[bytes] = []
        """The first events, until the next one."""
        self._last = b""
        """The events that were sent last."""
        self._secrets = DeltaSecrets(context.secrets)
        self._item_chars: dict[int, int] = {}
        """The length of all deltas of each open item."""
        self._searches = 0
        self._template: DeltaTemplate | None = None
        """That of the event that was read last."""
        self._misses = 0

    has_pending = False

    @property
    def placement(self) -> "NativeEvents":
        """The events themselves: none waits for the usage."""
        return self

    def flush_pending(self) -> bytes:
        """Return the event that waits for the rest of its text."""
        return self._secrets.release()

    @property
    def events_sent(self) -> int:
        """How many events the client got, by the number of the last one; 1 where they have none."""
        numbers = _NUMBER.findall(self._last)
        return int(numbers[-1]) + 1 if numbers else int(self.has_begun)

    @property
    def is_complete(self) -> bool:
        """Whether the whole response came."""
        return self.is_closed

    has_all_choices = is_complete

    def fill(self, events: bytes, at: int, max_bytes: int) -> Filled | None:
        """Return the events that differ from the last one in their text, their padding and their number alone."""
        template = self._template
        if template is None:
            return None
        end, chars = template.fill(events, at, max_bytes)
        if end == at:
            return None
        self._misses = 0
        self.text_chars += chars
        self._item_chars[template.output_index] += chars
        self._last = events[at:end]
        return Filled(self._last, chars, end)

    def ignores(self, chunk: dict[str, Any]) -> bool:
        """Return whether ``chunk`` says only that the provider is there."""
        return chunk.get("type") in _SIGNS_OF_LIFE

    def only_sets(self, _chunk: dict[str, Any]) -> bool:
        """Return False: an event whose text waits adds to that text."""
        return False

    def read(self, event: Event, chunk: dict[str, Any]) -> bytes:
        """Return one event, with those that waited for it."""
        kind = chunk.get("type")
        if not isinstance(kind, str):
            raise FailedStreamError(NOT_UNDERSTOOD)
        self._misses += self._template is not None
        self._template = None
        if kind in _BEGIN:
            return self._read_first(event)
        if kind in _SIGNS_OF_LIFE and not self.has_begun:
            return b""
        if kind in _END:
            self._read_end(chunk)
            shown = self._secrets.release() + with_model(event, self._model)
        elif isinstance(chunk.get("delta"), str):
            shown = self._read_delta(event, chunk)
        else:
            self._read_item(event, chunk, kind)
            shown = self._secrets.release() + whole_event(event)
        self.has_begun = True
        first, self._first = self._first, []
        shown = b"".join([*first, shown]) if first else shown
        self._last = shown or self._last
        return shown

    def finish(self) -> bytes:
        """Return nothing: the whole response came. Raises ``FailedStreamError`` where it did not."""
        if not self.is_closed:
            raise FailedStreamError(CUT)
        return b""

    def _read_first(self, event: Event) -> bytes:
        shown = with_model(event, self._model)
        if self.has_begun:
            return shown
        if len(self._first) >= len(_BEGIN):
            raise FailedStreamError(NOT_UNDERSTOOD)
        self._first.append(shown)
        self.kept_chars += len(shown)
        return b""

    def _read_end(self, chunk: dict[str, Any]) -> None:
        response = chunk.get("response")
        if not isinstance(response, dict):
            raise FailedStreamError(NOT_UNDERSTOOD)
        if failure := find_failure(response, self._context):
            raise FailedStreamError(failure)
        if (output := response.get("output")) and isinstance(
            output, list
        ):  # Some servers leave it empty here.
            self._searches = sum(map(count_searches, output))
        self.usage = read_usage(response, self._context.family, self._searches)
        self.finish_reason = finish_reason(response)
        self.is_closed = True

    def _read_delta(self, event: Event, chunk: dict[str, Any]) -> bytes:
        index = _index_of(chunk)
        known = self._item_chars.get(index)
        if known is None and len(self._item_chars) >= MAX_ITEMS:
            raise FailedStreamError(NOT_UNDERSTOOD)
        chars = len(chunk["delta"])
        self._item_chars[index] = (known or 0) + chars
        self.text_chars += chars
        shown = self._secrets.read(event, chunk) if self._secrets.is_needed else whole_event(event)
        if self._misses < MAX_MISSES and not self._secrets.is_waiting:
            is_clear = self._secrets.follow(chunk)
            if is_clear or not self._secrets.is_needed:
                self._template = delta_template(event, index, is_clear)
        return shown

    def _read_item(self, event: Event, chunk: dict[str, Any], kind: str) -> None:
        """Count what an item has beyond its deltas, and its search."""
        if kind != "response.output_item.done":
            self.kept_chars += len(event.payload)
            return
        item = chunk.get("item")
        chars = max(0, item_chars(item) - self._item_chars.pop(_index_of(chunk), 0))
        self.text_chars += chars
        self.kept_chars += 0 if chars else len(event.payload)
        if count_searches(item):
            self._searches += 1
            self.usage = Usage(searches=self._searches)


def _index_of(chunk: dict[str, Any]) -> int:
    index = chunk.get("output_index")
    return index if type(index) is int else -1
