"""The events of an OpenAI-shaped stream: each keeps its bytes but for the model, and for choices to be put right. Pure.

``addon/normal/`` says which those are.
"""

import json
from collections.abc import Sequence
from typing import Any

from addon.json_text import json_text
from addon.message import choice_text_chars, finish_reason
from addon.normal.choices import ChunkNormalizer, Normal
from addon.normal.in_bytes import choices_edits
from addon.source import Source
from addon.splice import Edit, apply_edits, model_edits, object_edits
from addon.sse import Event
from addon.sse_template import Template
from addon.usage import merge_usage, parse_usage
from policies.facts import Usage

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
        self._source = source
        self._model = json.dumps(source.model_slug).encode()
        self._normalizer = ChunkNormalizer(source.family, source.choices)
        self._head: dict[str, Any] = {}
        self._template: Template | None = None
        self._misses = 0

    @property
    def complete(self) -> bool:
        """A finish_reason was seen."""
        return self.finish_reason is not None

    def fill(self, event: bytes) -> bytes | None:
        """Chunks of one stream differ in little but their text."""
        if self._template is None:
            return None
        if (filled := self._template.fill(event)) is None:
            self._misses += 1
            return None
        self._misses = 0
        self.text_chars += filled[1]
        return filled[0]

    def read(self, event: Event, chunk: dict[str, Any]) -> bytes:
        """Return the event with its model replaced, and with the choices of the contract."""
        normal = self._normalizer.normalize(chunk)
        chars, says_more = self._learn(chunk, normal)
        self._template = None
        if normal.skip:
            return b""
        edits = self._edits(event.payload, chunk, normal)
        placed = [(event.place(start), event.place(end), text) for start, end, text in edits]
        if normal.repeatable and not says_more and self._misses < MAX_MISSES:
            self._template = Template.of(event.text, placed, chars)
        return apply_edits(event.text, placed)

    def last(self) -> bytes:
        """Return a chunk of what was kept back, because it might have become something else."""
        choices = self._normalizer.last()
        if not choices:
            return b""
        self.text_chars += sum(map(choice_text_chars, choices))
        return b"data: " + json_text({**self._head, "choices": choices}) + b"\n\n"

    def _edits(self, payload: bytes, chunk: dict[str, Any], normal: Normal) -> Sequence[Edit]:
        edits = model_edits(payload, chunk, self._model, insert="choices" in chunk)
        edits += object_edits(payload, chunk, CHUNK)
        return [*edits, *choices_edits(payload, chunk, normal)]

    def _learn(self, chunk: dict[str, Any], normal: Normal) -> tuple[int, bool]:
        """Take in what a chunk says. Return the length of its text, and whether it says anything else.

        The reason is the provider's own, as it is booked.
        """
        if usage := parse_usage(chunk, self._source.family):
            self.usage = merge_usage(self.usage, usage)
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            return 0, True
        if not self._head:
            self._head = {"object": CHUNK, "model": self._source.model_slug}
            self._head |= {name: value for name, value in chunk.items() if name in ("id", "created")}
        reason = finish_reason(choices)
        chars = sum(map(choice_text_chars, choices if normal.choices is None else normal.choices))
        self.finish_reason = reason or self.finish_reason
        self.text_chars += chars
        return chars, bool(usage or reason)
