"""Answers of another shape than the client's are read, translated and written anew. Pure."""

from collections.abc import Callable
from typing import Any

from addon.answer import Answer, decode_answer, failed, with_billing_notes
from addon.dialects.translation import StreamTranslator
from addon.errors import ErrorAnswer, upstream_garbage
from addon.json_text import json_text
from addon.message import choice_text_chars, finish_reason
from addon.source import Source
from addon.sse import Event
from addon.usage import parse_usage
from policies.facts import Usage

type Translate = Callable[[dict[str, Any], str, int], dict[str, Any]]
"""From a provider's whole answer, a catalog slug and a Unix time in seconds to a chat completion."""


class TranslatedChunks:
    """See ``sse.Chunks``. ``ends_itself``: an event of the provider's says that nothing follows it."""

    def __init__(self, translator: StreamTranslator, source: Source, *, ends_itself: bool) -> None:
        self.finish_reason: str | None = None
        self.text_chars = 0
        self._family = source.family
        self._translator = translator
        self._ends_itself = ends_itself

    @property
    def usage(self) -> Usage | None:
        """What is known of it by now."""
        return parse_usage({"usage": self._translator.usage}, self._family)

    @property
    def complete(self) -> bool:
        """The provider's own end was seen."""
        return self._translator.ended

    @property
    def closed(self) -> bool:
        """Nothing follows."""
        return self._ends_itself and self._translator.ended

    def fill(self, _event: bytes) -> bytes | None:
        """Return None: each event is read."""

    def read(self, _event: Event, chunk: dict[str, Any]) -> bytes:
        """Return the chunks that one event makes."""
        return b"".join([self._said(made) for made in self._translator.read(chunk)])

    def last(self) -> bytes:
        """Return the chunks that follow the provider's last event."""
        return b"".join([self._said(made) for made in self._translator.last()])

    def _said(self, chunk: dict[str, Any]) -> bytes:
        choices = chunk["choices"]
        self.finish_reason = finish_reason(choices) or self.finish_reason
        self.text_chars += sum(map(choice_text_chars, choices))
        return b"data: " + json_text(chunk) + b"\n\n"


def translated(translate: Translate) -> Callable[[bytes, Source], Answer]:
    """Return the reader of whole answers that ``translate`` makes chat completions of."""

    def read(body: bytes, source: Source) -> Answer:
        payload = decode_answer(body, source)
        if isinstance(payload, ErrorAnswer):
            return failed(payload)
        try:
            made = translate(payload, source.model_slug, source.created_s)
            usage, choices = parse_usage(made, source.family), made["choices"]
            told = json_text(made | {"choices": with_billing_notes(choices, usage)})
        except ValueError:
            return failed(upstream_garbage("it is not the answer of a chat model."))
        chars = sum(map(choice_text_chars, choices))
        return Answer(told, usage, finish_reason(choices), text_chars=chars)

    return read
