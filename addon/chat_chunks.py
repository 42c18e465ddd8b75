"""The events of an OpenAI-shaped stream: each keeps its bytes but for the model. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from addon.message import choice_text_chars, finish_reason
from addon.source import Source
from addon.splice import apply_edits, model_edits
from addon.sse import Event
from addon.sse_template import Template
from addon.usage import merge_usage, parse_usage
from policies.facts import Usage

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
        self._family = source.family
        self._model = json.dumps(source.model_slug).encode()
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
        """Return the event with its model replaced."""
        chars, says_more = self._learn(chunk)
        edits = model_edits(event.payload, chunk, self._model, insert="choices" in chunk)
        placed = [(event.place(start), event.place(end), text) for start, end, text in edits]
        self._template = None
        if not says_more and self._misses < MAX_MISSES:
            self._template = Template.of(event.text, placed, chars)
        return apply_edits(event.text, placed)

    def last(self) -> bytes:
        """Return nothing: nothing was kept back."""
        return b""

    def _learn(self, chunk: Mapping[str, object]) -> tuple[int, bool]:
        """Take in what a chunk says. Return the length of its text, and whether it says anything else."""
        if usage := parse_usage(chunk, self._family):
            self.usage = merge_usage(self.usage, usage)
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            return 0, True
        reason, chars = finish_reason(choices), sum(map(choice_text_chars, choices))
        self.finish_reason = reason or self.finish_reason
        self.text_chars += chars
        return chars, bool(usage or reason)
