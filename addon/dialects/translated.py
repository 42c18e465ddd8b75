"""Answers of another shape than the client's are read, translated and written anew. Pure."""

from collections.abc import Callable
from typing import Any

from addon.answers.context import Source
from addon.answers.stream import Event
from addon.answers.stream_frames import StreamFrames
from addon.answers.streamed_secrets import StreamedSecrets
from addon.answers.text_length import finish_reason, relayed_chars
from addon.answers.usage import parse_usage
from addon.answers.whole import Answer, decode_answer, failed, with_billing_notes
from addon.dialects.translation import HEAD, StreamTranslator
from addon.text.errors import ErrorAnswer, upstream_garbage
from addon.text.json_encode import json_text
from policies.model import Usage
from policies.plausible_usage import NOT_A_COUNT

type Translate = Callable[[dict[str, Any], str, int, str], dict[str, Any]]
"""From a provider's whole answer, a catalog slug, a Unix time in seconds and an id to a chat completion."""


class TranslatedChunks:
    """See ``sse.Chunks``."""

    def __init__(self, translator: StreamTranslator, source: Source) -> None:
        self.finish_reason: str | None = None
        self.text_chars = 0
        self.frames = StreamFrames(separate_usage=source.include_usage)
        self._secrets = StreamedSecrets(source.secrets)
        self._family = source.family
        self._translator = translator

    @property
    def usage(self) -> Usage | None:
        """What is known of it by now."""
        return parse_usage({"usage": self._translator.usage}, self._family)

    @property
    def complete(self) -> bool:
        """The provider has said how its answer ended."""
        return self._translator.finished

    all_complete = complete

    @property
    def closed(self) -> bool:
        """Nothing follows."""
        return self._translator.ended

    def fill(self, _event: bytes) -> bytes | None:
        """Return None: each event is read."""

    def read(self, _event: Event, chunk: dict[str, Any]) -> bytes:
        """Return the chunks that one event makes."""
        return b"".join([self._said(made) for made in self._translator.read(chunk)])

    def last(self) -> bytes:
        """Return the chunks that follow the provider's last event."""
        sent = [self._said(made) for made in self._translator.last()]
        if left := self._secrets.last():
            sent.append(
                self.frames.chunk(json_text({**self.frames.head, "choices": left}), left, bears_usage=False)
            )
        return b"".join([*sent, self.frames.last()])

    def _said(self, chunk: dict[str, Any]) -> bytes:
        choices = chunk["choices"]
        if not choices:
            shown = _shown(chunk)
            return self.frames.aside(json_text(shown), shown)
        if not self.frames.head:
            self.frames.head = {name: value for name, value in chunk.items() if name in HEAD}
        self.finish_reason = finish_reason(choices) or self.finish_reason
        self.text_chars += sum(map(relayed_chars, choices))
        masked = self._secrets.masked(choices)
        made = json_text(chunk if masked is choices else {**chunk, "choices": masked})
        return self.frames.chunk(made, masked, bears_usage=False)


def _shown(made: dict[str, Any]) -> dict[str, Any]:
    """Return what a client is shown: a count that is no number of tokens is none."""
    return {**made, "usage": _believable(made["usage"])} if "usage" in made else made


def _believable(counts: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _believable(count) if isinstance(count, dict) else count
        for name, count in counts.items()
        if count != NOT_A_COUNT
    }


def translated(translate: Translate) -> Callable[[bytes, Source], Answer]:
    """Return the reader of whole answers that ``translate`` makes chat completions of."""

    def read(body: bytes, source: Source) -> Answer:
        payload = decode_answer(body, source)
        if isinstance(payload, ErrorAnswer):
            return failed(payload)
        try:
            made = translate(payload, source.model_slug, source.created_s, source.answer_id)
            usage, choices = parse_usage(made, source.family), made["choices"]
            told = json_text(_shown(made) | {"choices": with_billing_notes(choices, usage)})
        except ValueError:
            return failed(upstream_garbage("it is not the answer of a chat model."))
        chars = sum(map(relayed_chars, choices))
        return Answer(told, usage, finish_reason(choices), text_chars=chars)

    return read
