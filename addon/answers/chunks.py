"""The chunks of an OpenAI-shaped stream. Each keeps its bytes, except for its identity and its choices. Pure.

``answers/normalize/`` says how choices change; ``usage_placement`` says which chunk carries the usage.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from addon.answers.answer_length import relayed_chars
from addon.answers.bounds import parse_bounded
from addon.answers.chunk_template import MAX_MISSES, Filled, Template, make_template
from addon.answers.context import AnswerContext, encode_slug
from addon.answers.normalize.choices import ChunkNormalizer, ChunkResult
from addon.answers.normalize.finish_reason import last_finish_reason
from addon.answers.normalize.list_index import ListIndexes, detail_edit, number_edits, with_next_index
from addon.answers.normalize.reasoning import delta_starts, reasoning_edits, repeats_reasoning
from addon.answers.normalize.role import role_edits
from addon.answers.sse import DONE_EVENT, frame
from addon.answers.stream_chunks import Event
from addon.answers.streamed_secrets import StreamedSecrets, clears
from addon.answers.usage import USAGE_MEMBERS, merge_usage, parse_usage
from addon.answers.usage_placement import UsagePlacement
from addon.text.json_edits import (
    Edit,
    apply_edits,
    identity_edits,
    is_whole_number,
    model_edits,
    value_edit,
)
from addon.text.json_encode import encode_json
from policies.usage import Usage

CHUNK = "chat.completion.chunk"
MAX_TEMPLATES = 4
"""For choices, or for reasoning and content, that take turns."""


class ChatChunks:
    """The chunks of an OpenAI-shaped stream; see ``stream_chunks.Chunks``."""

    end = DONE_EVENT
    events_sent = 0
    kept_chars = 0
    is_closed = False
    """The stream ends only with [DONE] or the end of the message."""

    def __init__(self, context: AnswerContext) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.text_chars = 0
        self.placement = UsagePlacement(separate_usage=context.include_usage)
        self._context = context
        self._model = encode_slug(context.model_slug)
        self._normalizer = ChunkNormalizer(context.family, context.choices, seed=context.answer_id)
        self._answer_id = context.answer_id
        self._secrets = StreamedSecrets(context.secrets)
        self._templates: list[tuple[Template, Callable[[str], bool] | None, ListIndexes | None]] = []
        """With each, the function that takes the text that differs between its chunks, and the indexes it needs."""
        self._next_template = 0
        self._misses = 0

    @property
    def is_complete(self) -> bool:
        """Whether every choice has its ``finish_reason``."""
        return self.placement.is_complete

    @property
    def has_all_choices(self) -> bool:
        """Whether the answer is complete and has as many choices as were asked for."""
        return self.is_complete and len(self.placement.finished_choices) >= (self._context.choices or 1)

    def fill(self, events: bytes, at: int, max_bytes: int) -> Filled | None:
        """Return the events that fit the templates of earlier chunks; see ``Template.fill``."""
        start, size, chars, untried = at, len(events), 0, len(self._templates)
        relayed: list[bytes] = []
        reported: dict[int, bytes] = {}
        while untried and at < size:
            template, is_clear, indexes = self._templates[self._next_template]
            filled = template.fill(events, at, max_bytes, is_clear)
            if filled.end > at:
                relayed.append(indexes.fill_in(filled.relayed) if indexes else filled.relayed)
                if filled.usage:
                    reported.pop(self._next_template, None)
                    reported[self._next_template] = filled.usage
                at, chars, untried = filled.end, chars + filled.chars, len(self._templates)
            untried -= 1
            if at < size:
                self._next_template = (self._next_template + 1) % len(self._templates)
        if at == start:
            return None
        self._misses = 0
        self.text_chars += chars
        # Chunks of one template report the same counts, so only the last report of each counts.
        for report in reported.values():
            self._read_usage({"usage": parse_bounded(report)})
            self.placement.keep_usage(report)
        return Filled(b"".join(relayed), chars, at)

    def ignores(self, chunk: dict[str, Any]) -> bool:
        """Return whether ``chunk`` has no choice, no usage and nothing for the next chunk."""
        says_nothing = not chunk.get("choices") and USAGE_MEMBERS.isdisjoint(chunk)
        return says_nothing and not self.placement.has_extra_members

    def only_sets(self, chunk: dict[str, Any]) -> bool:
        """Return whether ``chunk`` has no choice: its usage and its other members take the place of earlier ones."""
        return not chunk.get("choices")

    def read(self, event: Event, chunk: dict[str, Any]) -> bytes:
        """Return the event with its identity replaced and with normalized choices."""
        result = self._normalizer.normalize(chunk)
        choices = chunk.get("choices") if result.choices is None else result.choices
        chars, says_more = self._read_facts(chunk, choices)
        self._misses += bool(self._templates)
        if result.is_empty:
            self._forget_templates()
            return b""
        if choices and self._secrets.is_needed and (masked := self._secrets.mask(choices)) is not choices:
            result, choices = ChunkResult(masked, is_repeatable=False), masked
        # Of an event without choice or usage, nothing goes but its other members, as they are.
        is_edited = choices or not USAGE_MEMBERS.isdisjoint(chunk)
        edits = self._edits(event.payload, chunk, result) if is_edited else ()
        made = apply_edits(event.payload, edits)
        if not choices:
            sent = self.placement.add_event(made, chunk)
            if sent or not self.ignores(chunk):
                self._forget_templates()
            return sent
        has_usage = isinstance(chunk.get("usage"), dict)
        sent = self.placement.add_chunk(made, choices, has_usage=has_usage)
        usage = value_edit(event.payload, "usage", b"null") if has_usage else None
        alike = frame(apply_edits(event.payload, [*edits, usage]) if usage else made)
        if not result.is_repeatable or says_more or sent != alike:
            self._forget_templates()
        elif self._misses < MAX_MISSES and event.start >= 0:
            self._keep_template(event, edits, usage, choices, chars, result.indexes)
        return sent

    def _keep_template(
        self,
        event: Event,
        edits: Sequence[Edit],
        usage: Edit | None,
        choices: Sequence[Any],
        chars: int,
        indexes: ListIndexes | None,
    ) -> None:
        """Keep the template of the chunk that was read last, if it has one, or forget all."""
        has_twin = len(choices) == 1 and repeats_reasoning(choices[0]["delta"])
        texts = self._secrets.followed
        is_followed = len(texts) == 1 + has_twin or self._secrets.is_textless or not self._secrets.is_needed
        counted = with_next_index(edits[-1]) if indexes else None
        if not is_followed or (indexes and not counted):
            self._forget_templates()
            return
        edits = [*edits[:-1], counted] if counted else edits
        template = make_template(
            event.text, event.start, event.payload, edits, chars, usage=usage, has_twin=has_twin
        )
        if template:
            kept = self._templates[1 - MAX_TEMPLATES :]
            self._templates = [*kept, (template, clears(texts) if texts else None, indexes)]
            self._next_template = len(self._templates) - 1

    def _forget_templates(self) -> None:
        self._templates, self._next_template = [], 0

    def finish(self) -> bytes:
        """Return the text that was held, and the usage."""
        sent = b""
        left = self._normalizer.finish()
        self.text_chars += sum(map(relayed_chars, left))
        if choices := (self._secrets.mask(left) if left else []) + self._secrets.finish():
            made = encode_json({**self.placement.head, "choices": choices})
            sent = self.placement.add_chunk(made, choices, has_usage=False)
        return sent + self.placement.finish()

    def _edits(self, payload: bytes, chunk: dict[str, Any], result: ChunkResult) -> Sequence[Edit]:
        edits = model_edits(payload, chunk, self._model, insert=True)
        edits += identity_edits(payload, chunk, self._answer_id, self._context.created_s, CHUNK)
        return edits if result.choices is None else [*edits, *choices_edits(payload, chunk, result)]

    def _read_facts(self, chunk: dict[str, Any], choices: Any) -> tuple[int, bool]:
        """Read usage, finish reason and text. Return the length of the text, and whether there is anything else.

        The finish reason is the provider's own word: the ledger records that one.
        """
        if "service_tier" in chunk or not USAGE_MEMBERS.isdisjoint(chunk):
            self._read_usage(chunk)
        if not isinstance(chunk.get("choices"), list) or not choices:
            return 0, True
        if not self.placement.head:
            self._read_head(chunk)
        reason = last_finish_reason(chunk["choices"])
        chars = sum(map(relayed_chars, choices))
        self.finish_reason = reason or self.finish_reason
        self.text_chars += chars
        return chars, bool(reason) or "x_groq" in chunk

    def _read_usage(self, chunk: Mapping[str, object]) -> None:
        if usage := parse_usage(chunk, self._context.family):
            self.usage = merge_usage(self.usage, usage)

    def _read_head(self, chunk: dict[str, Any]) -> None:
        given, created = chunk.get("id"), chunk.get("created")
        self._answer_id = given if given and isinstance(given, str) else self._answer_id
        created = created if is_whole_number(created) else self._context.created_s
        head = {"id": self._answer_id, "object": CHUNK, "created": created, "model": self._context.model_slug}
        self.placement.head = head


def choices_edits(payload: bytes, chunk: Mapping[str, Any], result: ChunkResult) -> list[Edit]:
    """Return the edits that give ``payload``, the JSON of ``chunk``, the choices of ``result``.

    When only a word or two change, only those bytes do.
    """
    if result.choices is None:
        return []
    if result.is_numbered:
        return number_edits(payload)
    roles = role_edits(payload) if result.role_dropped else []
    if roles is None or not (result.is_renamed or result.role_dropped or result.indexes):
        return [value_edit(payload, "choices", encode_json(result.choices))]
    edits = [*roles, *(reasoning_edits(payload, chunk) if result.is_renamed else [])]
    if result.indexes:
        start = delta_starts(payload.decode("latin-1"))[-1]
        edits.append(detail_edit(payload, start, result.choices[-1]["delta"]))
    return edits
