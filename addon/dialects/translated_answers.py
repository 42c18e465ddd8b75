"""Readers of answers in another shape than the client's: they read an answer, translate it and write it. Pure."""

from collections.abc import Callable
from typing import Any

from addon.answers.answer_length import relayed_chars
from addon.answers.chunk_template import MAX_MISSES, Filled, Template
from addon.answers.context import AnswerContext
from addon.answers.normalize.finish_reason import last_finish_reason
from addon.answers.sse import DONE_EVENT
from addon.answers.stream_chunks import Event
from addon.answers.streamed_secrets import StreamedSecrets, clears
from addon.answers.usage import merge_usage, parse_usage
from addon.answers.usage_placement import UsagePlacement
from addon.answers.whole import Answer, decode_answer, failed, with_billing_notes
from addon.dialects.chat_shape import HEAD, StreamTranslator
from addon.dialects.translated_template import SlottedTemplate, translated_template
from addon.text.errors import ErrorAnswer, unreadable_answer
from addon.text.json_encode import encode_json
from policies.family import Family
from policies.plausible_usage import NOT_A_COUNT
from policies.usage import Usage

type Translate = Callable[[dict[str, Any], str, int, str], dict[str, Any]]
"""From a provider's whole answer, a catalog slug, a Unix time in seconds and an id to a chat completion."""


class TranslatedChunks:
    """The chunks of a stream of another shape; see ``stream_chunks.Chunks``."""

    end = DONE_EVENT
    events_sent = 0

    def __init__(self, translator: StreamTranslator, context: AnswerContext) -> None:
        self.finish_reason: str | None = None
        self.text_chars = 0
        self.placement = UsagePlacement(separate_usage=context.include_usage)
        self._secrets = StreamedSecrets(context.secrets)
        self._family = context.family
        self._translator = translator
        self._template: Template | SlottedTemplate | None = None
        """That of the event that was read last."""
        self._is_clear: Callable[[str], bool] | None = None
        """The function that takes the text of an event that fits."""
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
    def kept_chars(self) -> int:
        """The length of the content that was kept for a later chunk."""
        return self._translator.kept_chars

    @property
    def is_closed(self) -> bool:
        """Whether the provider has said that nothing follows."""
        return self._translator.is_closed

    def fill(self, events: bytes, at: int, max_bytes: int) -> Filled | None:
        """Return the events that differ from the last one in their text alone; see ``Template.fill``."""
        if self._template is None:
            return None
        filled = self._template.fill(events, at, max_bytes, self._may_fill)
        if filled.end == at:
            return None
        self._misses = 0
        self.text_chars += filled.chars
        return filled

    def ignores(self, chunk: dict[str, Any]) -> bool:
        """Return whether the provider's API gives such an event no meaning."""
        return self._translator.ignores(chunk)

    def only_sets(self, _chunk: dict[str, Any]) -> bool:
        """Return True: what is not sent at once takes the place of what an earlier event said."""
        return True

    def read(self, event: Event, chunk: dict[str, Any]) -> bytes:
        """Return the chunks of one event."""
        chars, chunks = self.text_chars, self._translator.read(chunk)
        sent = b"".join([self._add(made) for made in chunks])
        self._misses += self._template is not None
        self._template = None
        if len(chunks) == 1 and self._misses < MAX_MISSES:
            self._template = translated_template(event, chunks[0], sent, self.text_chars - chars)
        if self._template and self._secrets.is_needed:
            texts = self._secrets.followed
            is_followed = len(texts) == 1 + bool(self._template.relayed_twin)
            self._template = self._template if is_followed else None
            self._is_clear = clears(texts) if is_followed else None
        return sent

    def _may_fill(self, text: str) -> bool:
        """Take the text of an event. An empty one gives no chunk, and one that may touch a secret is read."""
        return bool(text) and (self._is_clear is None or self._is_clear(text))

    def finish(self) -> bytes:
        """Return the chunks that follow the provider's last event."""
        sent = [self._add(made) for made in self._translator.finish()]
        if left := self._secrets.finish():
            made = encode_json({**self.placement.head, "choices": left})
            sent.append(self.placement.add_chunk(made, left, has_usage=False))
        return b"".join([*sent, self.placement.finish()])

    def _add(self, chunk: dict[str, Any]) -> bytes:
        choices = chunk["choices"]
        if not choices:
            shown = _without_impossible_counts(chunk)
            return self.placement.add_event(encode_json(shown), shown)
        if not self.placement.head:
            self.placement.head = {name: value for name, value in chunk.items() if name in HEAD}
        self.finish_reason = last_finish_reason(choices) or self.finish_reason
        self.text_chars += sum(map(relayed_chars, choices))
        masked = self._secrets.mask(choices)
        made = encode_json(chunk if masked is choices else {**chunk, "choices": masked})
        return self.placement.add_chunk(made, masked, has_usage=False)


def translated_usage(translator: StreamTranslator, family: Family) -> Usage | None:
    """Return the counts that a translator knows so far, as the family of the model reports them."""
    counted = parse_usage({"usage": translator.usage}, family)
    return merge_usage(counted, translator.priced) if counted else None


def _without_impossible_counts(made: dict[str, Any]) -> dict[str, Any]:
    """Return an answer or chunk for the client: its usage has no count that is ``NOT_A_COUNT``."""
    return {**made, "usage": _possible_counts(made["usage"])} if "usage" in made else made


def _possible_counts(counts: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _possible_counts(count) if isinstance(count, dict) else count
        for name, count in counts.items()
        if count != NOT_A_COUNT
    }


def translating_reader(
    translate: Translate, read_priced: Callable[[dict[str, Any]], Usage]
) -> Callable[[bytes, AnswerContext], Answer]:
    """Return a function that reads a whole answer and makes a chat completion of it with ``translate``.

    ``read_priced`` returns the counts of a provider's answer that a chat completion has no place for.
    """

    def read(body: bytes, context: AnswerContext) -> Answer:
        payload = decode_answer(body, context)
        if isinstance(payload, ErrorAnswer):
            return failed(payload)
        try:
            made = translate(payload, context.model_slug, context.created_s, context.answer_id)
            counted, choices = parse_usage(made, context.family), made["choices"]
            usage = merge_usage(counted, read_priced(payload)) if counted else None
            noted = _without_impossible_counts(made) | {"choices": with_billing_notes(choices, usage)}
            shown = encode_json(noted)
        except ValueError:
            return failed(unreadable_answer("it is not the answer of a chat model."))
        chars = sum(map(relayed_chars, choices))
        return Answer(shown, usage, last_finish_reason(choices), text_chars=chars)

    return read
