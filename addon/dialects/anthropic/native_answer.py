"""Answers of Anthropic's Messages API for its own clients: the bytes stay, except for the model's name. Pure.

What is read in them is what is read for a chat answer. Source: as ``answer``.
"""

from typing import Any

from addon.answers.answer_length import relayed_chars
from addon.answers.chunk_template import MAX_MISSES, Filled
from addon.answers.context import AnswerContext, encode_slug
from addon.answers.normalize.finish_reason import last_finish_reason
from addon.answers.stream_chunks import Event
from addon.answers.usage import merge_usage, parse_usage
from addon.answers.whole import Answer, decode_answer, failed
from addon.dialects.anthropic.answer import AnthropicStream, read_priced, to_completion
from addon.dialects.anthropic.native_events import HOLDERS, STOP_EVENT, encode_event, framed, with_model
from addon.dialects.anthropic.native_secrets import BlockSecrets
from addon.dialects.anthropic.native_template import NativeTemplate, native_template
from addon.dialects.translated_answers import translated_usage
from addon.text.errors import ErrorAnswer, unreadable_answer
from addon.text.json_edits import apply_edits, model_edits
from policies.usage import Usage


def read_native(body: bytes, context: AnswerContext) -> Answer:
    """Return the whole answer of a 2xx with the catalog slug as its model."""
    payload = decode_answer(body, context)
    if isinstance(payload, ErrorAnswer):
        return failed(payload)
    try:
        made = to_completion(payload, context.model_slug, context.created_s, context.answer_id)
    except ValueError:
        return failed(unreadable_answer("it is not a message of the API."))
    counted, choices = parse_usage(made, context.family), made["choices"]
    usage = merge_usage(counted, read_priced(payload)) if counted else None
    shown = apply_edits(body, model_edits(body, payload, encode_slug(context.model_slug), insert=True))
    return Answer(shown, usage, last_finish_reason(choices), text_chars=sum(map(relayed_chars, choices)))


class _Begun:
    """See ``stream_chunks.Placement``: no event waits for another."""

    has_begun = has_pending = False

    def flush_pending(self) -> bytes:
        return b""


class NativeChunks:
    """The events of one stream; see ``stream_chunks.Chunks``. They go as they come.

    The first one gets the catalog slug as its model. A text that holds the key of the call gets a mask.
    """

    end = b""
    """The last event is one of the API's own."""
    events_sent = 0

    def __init__(self, context: AnswerContext) -> None:
        self.finish_reason: str | None = None
        self.text_chars = 0
        self.kept_chars = 0
        """The length of the content that is no text of the model, such as the results of a search: no silence."""
        self.placement = _Begun()
        self._family, self._model = context.family, encode_slug(context.model_slug)
        self._translator = AnthropicStream(context.model_slug, context.created_s, context.answer_id)
        self._secrets = BlockSecrets(context.secrets)
        self._template: NativeTemplate | None = None
        """That of the event that was read last."""
        self._misses = 0

    @property
    def usage(self) -> Usage | None:
        """The counts that are known so far."""
        return translated_usage(self._translator, self._family)

    @property
    def is_complete(self) -> bool:
        """Whether the provider has said how its answer ended."""
        return self._translator.has_finished

    has_all_choices = is_complete

    @property
    def is_closed(self) -> bool:
        """Whether the provider has said that nothing follows."""
        return self._translator.is_closed

    def fill(self, events: bytes, at: int, max_bytes: int) -> Filled | None:
        """Return the events that differ from the last one in their text and their padding alone."""
        template = self._template
        if template is None or (end_chars := template.match(events, at, max_bytes)) is None:
            return None
        self._misses = 0
        end, chars = end_chars
        if not template.is_counted:
            self.kept_chars += chars
            return Filled(events[at:end], 0, end)
        self.text_chars += chars
        return Filled(events[at:end], chars, end)

    def ignores(self, chunk: dict[str, Any]) -> bool:
        """Return whether ``chunk`` says only that the provider is there."""
        return bool(chunk["type"] == "ping")

    def only_sets(self, _chunk: dict[str, Any]) -> bool:
        """Return False: an event whose text is held back adds to that text."""
        return False

    def read(self, event: Event, chunk: dict[str, Any]) -> bytes:
        """Return one event. Raises ValueError for one that can't be understood, or comes before the first."""
        made = self._translator.read(chunk)
        if not isinstance(kind := chunk["type"], str):
            raise ValueError("a type is not a string")
        self._misses += self._template is not None
        self._template = None
        if kind == "message_start":
            self.placement.has_begun = True
            return framed(with_model(event, self._model), kind)
        if not self.placement.has_begun:
            if kind in HOLDERS:
                raise ValueError("a block without a message")
            return b""
        chars = self._count(made)
        if not chars and kind in HOLDERS:
            self.kept_chars += len(event.payload)
        before, shown = self._secrets.mask(chunk) if self._secrets.is_needed else (b"", chunk)
        if shown is not chunk:
            return before + encode_event(shown) if shown else before
        if kind == "content_block_delta" and self._misses < MAX_MISSES:
            is_clear = self._secrets.follow(chunk)
            if is_clear or not self._secrets.is_needed:
                self._template = native_template(event, chunk, is_clear, is_counted=chars > 0)
        return before + framed(event, kind)

    def finish(self) -> bytes:
        """Return what an answer lacks that is complete, but has no last event."""
        for made in self._translator.finish():
            self._count([made])
            self.finish_reason = last_finish_reason(made["choices"]) or self.finish_reason
        return b"" if self.is_closed else self._secrets.end_all() + STOP_EVENT

    def _count(self, made: list[dict[str, Any]]) -> int:
        """Count the text of an event; ``made`` are the chunks that a chat client would get for it."""
        chars = sum([relayed_chars(choice) for chunk in made for choice in chunk["choices"]])
        self.text_chars += chars
        return chars
