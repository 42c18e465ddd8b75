"""The events of an OpenAI-shaped stream: each keeps its bytes, but for its identity and choices to be put right. Pure.

``addon/answers/normalize/`` says which those are; ``stream_frames`` says which chunk bears the usage.
"""

import json
from collections.abc import Sequence
from typing import Any

from addon.answers.chunk_template import Template
from addon.answers.context import Source
from addon.answers.normalize.choices import ChunkNormalizer, Normal
from addon.answers.normalize.in_bytes import choices_edits
from addon.answers.stream import Event
from addon.answers.stream_frames import StreamFrames, frame
from addon.answers.streamed_secrets import SecretFreeText, StreamedSecrets
from addon.answers.text_length import finish_reason, relayed_chars
from addon.answers.usage import merge_usage, parse_usage
from addon.text.json_edits import Edit, apply_edits, identity_edits, model_edits
from addon.text.json_encode import json_text
from policies.model import Usage

CHUNK = "chat.completion.chunk"
MAX_MISSES = 8
"""So many chunks in a row, each unlike the one before, show that a provider pads them: no more templates are made."""


class ChatChunks:
    """See ``sse.Chunks``."""

    closed = False
    """Only [DONE], or the end of the message, says that nothing follows."""

    def __init__(self, source: Source) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.text_chars = 0
        self.frames = StreamFrames(separate_usage=source.include_usage)
        self._source = source
        self._model = json.dumps(source.model_slug).encode()
        self._normalizer = ChunkNormalizer(source.family, source.choices, seed=source.answer_id)
        self._answer_id = source.answer_id
        self._secrets = StreamedSecrets(source.secrets)
        self._template: Template | None = None
        self._text: SecretFreeText | None = None  # the text that differs between chunks of the template
        self._misses = 0

    @property
    def complete(self) -> bool:
        """Every choice has its finish_reason."""
        return self.frames.complete

    @property
    def all_complete(self) -> bool:
        """As ``complete``, and there are as many choices as were asked for."""
        return self.complete and len(self.frames.finished) >= (self._source.choices or 1)

    def fill(self, event: bytes) -> bytes | None:
        """Chunks of one stream differ in little but their text."""
        if self._template is None:
            return None
        if (filled := self._template.fill(event)) is None:
            self._misses += 1
            return None
        self._misses = 0
        relayed, text = filled
        if self._text and not self._text.is_clear(text):
            return None
        self.text_chars += self._template.other_chars + len(text)
        return relayed

    def read(self, event: Event, chunk: dict[str, Any]) -> bytes:
        """Return the event with its identity replaced, and with the choices of the contract."""
        normal = self._normalizer.normalize(chunk)
        choices = chunk.get("choices") if normal.choices is None else normal.choices
        chars, says_more = self._learn(chunk, choices)
        self._template = None
        if normal.skip:
            return b""
        if choices and (masked := self._secrets.masked(choices)) is not choices:
            normal, choices = Normal(masked, repeatable=False), masked
        edits = self._edits(event.payload, chunk, normal)
        made = apply_edits(event.payload, edits)
        if not choices:
            return self.frames.aside(made, chunk)
        sent = self.frames.chunk(made, choices, bears_usage=isinstance(chunk.get("usage"), dict))
        is_alike = normal.repeatable and not says_more and self._misses < MAX_MISSES
        self._text = self._secrets.only
        if self._secrets.is_needed and not self._text:
            return sent
        if is_alike and event.start >= 0 and sent == frame(made):
            self._template = Template.of(event.text, event.start, event.payload, edits, chars)
        return sent

    def last(self) -> bytes:
        """Return what was kept back because it might have become something else, and the usage."""
        sent = b""
        left = self._normalizer.last()
        self.text_chars += sum(map(relayed_chars, left))
        if choices := self._secrets.masked(left) + self._secrets.last():
            made = json_text({**self.frames.head, "choices": choices})
            sent = self.frames.chunk(made, choices, bears_usage=False)
        return sent + self.frames.last()

    def _edits(self, payload: bytes, chunk: dict[str, Any], normal: Normal) -> Sequence[Edit]:
        edits = model_edits(payload, chunk, self._model, insert=True)
        edits += identity_edits(payload, chunk, self._answer_id, self._source.created_s, CHUNK)
        return [*edits, *choices_edits(payload, chunk, normal)]

    def _learn(self, chunk: dict[str, Any], choices: Any) -> tuple[int, bool]:
        """Take in what a chunk says. Return the length of its text, and whether it says anything else.

        The reason is the provider's own, as it is booked.
        """
        if usage := parse_usage(chunk, self._source.family):
            self.usage = merge_usage(self.usage, usage)
        if not isinstance(chunk.get("choices"), list) or not choices:
            return 0, True
        if not self.frames.head:
            self._note_head(chunk)
        reason = finish_reason(chunk["choices"])
        chars = sum(map(relayed_chars, choices))
        self.finish_reason = reason or self.finish_reason
        self.text_chars += chars
        return chars, bool(usage or reason)

    def _note_head(self, chunk: dict[str, Any]) -> None:
        self._answer_id = chunk.get("id") or self._answer_id
        created = chunk.get("created")
        created = self._source.created_s if created is None else created
        head = {"id": self._answer_id, "object": CHUNK, "created": created, "model": self._source.model_slug}
        self.frames.head = head
