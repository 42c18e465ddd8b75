"""Streamed answers of the Responses API become chunks of a chat completion. Pure.

Only ``output_index`` tells items apart: some servers change an item's id with each event, and some begin an item before
the last one is done. Source: OpenAI, API reference, "Streaming events"; recorded traffic.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, override

from addon.answers.bounds import FailedStreamError
from addon.answers.context import AnswerContext
from addon.answers.stream_body import reported_failure
from addon.dialects.chat_shape import Identity, chunk
from addon.dialects.content_blocks import MALFORMED, BlockStream, text_of
from addon.dialects.responses.answer import (
    BREAK,
    argument_members,
    arguments_of,
    call_head_of,
    chat_annotations,
    chat_usage,
    encrypted_detail,
    finish_reason,
    read_priced,
    reasoning_texts,
)
from policies.usage import Usage

type Chunks = list[dict[str, Any]]
type Event = dict[str, Any]


class ResponsesStream(BlockStream):
    """One streamed answer; see ``chat_shape.StreamTranslator``.

    Its first chunks come with its first content: a failure before that leaves the client without a byte.
    """

    def __init__(self, context: AnswerContext) -> None:
        super().__init__(context.model_slug, context.created_s, context.answer_id)
        self._has_begun = False
        self._context = context
        self._end_state: Mapping[str, Any] = {}  # the response of the last event
        self._kinds: dict[int, str] = {}  # of calls, by their output_index
        self._shown: set[object] = set()  # what has sent text or arguments: items, and parts of reasoning
        self._said_chars = 0  # the length of the texts that are done
        self._message: int | None = None  # the last message that sent text
        self._message_chars = 0  # where its text begins
        self._annotations = 0
        self._thought: object = None  # the last part of reasoning that sent text

    def read(self, event: Event) -> Chunks:
        """Return the chunks of one event. Raises ValueError for an event that makes no sense."""
        try:
            reader = _EVENTS.get(event["type"])
            return self._begin(reader(self, event)) if reader else []
        except MALFORMED as error:
            raise ValueError("it is not an event of the API") from error

    @override
    def ignores(self, event: Event) -> bool:
        """Return whether it is a ``keepalive``, or of another kind that is not read."""
        return event.get("type") not in _EVENTS

    @property
    @override
    def priced(self) -> Usage:
        """The service tier."""
        return read_priced(self._end_state)

    def _begin(self, chunks: Chunks) -> Chunks:
        """Return ``chunks`` after the one with the role, if they are the first."""
        if not chunks or self._has_begun:
            return chunks
        self._has_begun = True
        return [chunk(self._identity, {"role": "assistant"}), *chunks]

    @override
    def _end(self) -> Chunks:
        return self._begin(
            [chunk(self._identity, {}, finish_reason(self._end_state, has_calls=bool(self._calls)))]
        )

    def _created(self, event: Event) -> Chunks:
        answer = event["response"]
        self._identity = Identity(
            text_of(answer.get("id") or self._identity.id),
            self._identity.created_s,
            self._identity.model_slug,
        )
        return []

    def _item_added(self, event: Event) -> Chunks:
        item, place = event["item"], event["output_index"]
        if item["type"] not in ("function_call", "custom_tool_call"):
            return []
        self._kinds[place] = item["type"]
        return [self._call(self._calls.setdefault(place, len(self._calls)), call_head_of(item))]

    def _item_done(self, event: Event) -> Chunks:
        """Send what the item has, and no event before said."""
        item, place = event["item"], event["output_index"]
        match item["type"]:
            case "reasoning":
                return self._reasoning_done(item, place)
            case "message" if place not in self._shown:
                parts = [part for part in item["content"] if part["type"] in ("output_text", "refusal")]
                return [made for part in parts for made in self._part_done(part, place)]
            case "function_call" | "custom_tool_call":
                begun = [] if place in self._calls else self._item_added(event)
                return begun + self._send_arguments(place, arguments_of(item))
        return []

    def _part_done(self, part: Mapping[str, Any], place: int) -> Chunks:
        if part["type"] == "refusal":
            return self._send_refusal({"output_index": place, "delta": part["refusal"]})
        return self._send_text({"output_index": place, "delta": part["text"]})

    def _reasoning_done(self, item: Mapping[str, Any], place: int) -> Chunks:
        made: Chunks = []
        if place not in self._shown:
            for index, text in enumerate(reasoning_texts(item)):
                made += self._send_thought({"output_index": place, "summary_index": index, "delta": text})
        if item.get("encrypted_content"):
            detail = encrypted_detail(item, self._details.setdefault(place, len(self._details)))
            made.append(chunk(self._identity, {"reasoning_details": [detail]}))
        return made

    def _send_text(self, event: Event) -> Chunks:
        text, place = text_of(event["delta"]), event["output_index"]
        if not text:
            return []
        if place != self._message:
            if self._message is not None:
                text, self._said_chars = BREAK + text, self._said_chars + len(BREAK)
            self._message, self._message_chars = place, self._said_chars
        self._shown.add(place)
        made = chunk(self._identity, {"content": text})
        if logprobs := event.get("logprobs"):
            made["choices"][0]["logprobs"] = {"content": logprobs, "refusal": None}
        return [made]

    def _text_done(self, event: Event) -> Chunks:
        """Count a text. Most of its deltas are not read one by one, because they differ in their text alone."""
        self._said_chars += len(text_of(event["text"]))
        return []

    def _send_refusal(self, event: Event) -> Chunks:
        self._shown.add(event["output_index"])
        return [chunk(self._identity, {"refusal": text})] if (text := text_of(event["delta"])) else []

    def _send_annotation(self, event: Event) -> Chunks:
        found = chat_annotations([event["annotation"]], self._message_chars)
        if not found:
            return []
        self._annotations += 1  # Clients join lists by their index.
        made = {**found[0], "index": self._annotations - 1}
        return [chunk(self._identity, {"annotations": [made]})]

    def _send_thought(self, event: Event) -> Chunks:
        text, place = text_of(event["delta"]), event["output_index"]
        if not text:
            return []
        part = (place, event.get("summary_index"), event.get("content_index"))
        if self._thought not in (None, part):
            text = BREAK + text
        self._thought = part
        self._shown.add(place)
        return [chunk(self._identity, {"reasoning_content": text})]

    def _arguments_delta(self, event: Event) -> Chunks:
        place, text = event["output_index"], text_of(event["delta"])
        if not text or place not in self._calls:
            return []  # Tools that the provider runs itself get arguments too.
        self._shown.add(place)
        return [self._call(self._calls[place], argument_members(self._kinds[place], text))]

    def _send_arguments(self, place: int, text: str) -> Chunks:
        """Send arguments that came whole, with the end of their call."""
        return [] if place in self._shown else self._arguments_delta({"output_index": place, "delta": text})

    def _ended(self, event: Event) -> Chunks:
        answer = event["response"]
        finish_reason(answer, has_calls=False)  # It must have ended.
        self._end_state, self._stop_reason = answer, answer.get("status", "completed")
        self.usage = chat_usage(answer.get("usage"))
        self.is_closed = True
        return (
            [] if self._has_begun else [chunk(self._identity, {"content": ""})]
        )  # It had only unseen reasoning.

    def _failed(self, event: Event) -> Chunks:
        error = event["response"].get("error") or {"message": "The provider failed to answer."}
        raise FailedStreamError(reported_failure({"error": error}, self._context))


_EVENTS: Final[Mapping[object, Callable[[ResponsesStream, Event], Chunks]]] = MappingProxyType(
    {
        "response.created": ResponsesStream._created,
        "response.output_item.added": ResponsesStream._item_added,
        "response.output_text.delta": ResponsesStream._send_text,
        "response.output_text.done": ResponsesStream._text_done,
        "response.output_text.annotation.added": ResponsesStream._send_annotation,
        "response.refusal.delta": ResponsesStream._send_refusal,
        "response.reasoning_summary_text.delta": ResponsesStream._send_thought,
        "response.reasoning_text.delta": ResponsesStream._send_thought,
        "response.function_call_arguments.delta": ResponsesStream._arguments_delta,
        "response.custom_tool_call_input.delta": ResponsesStream._arguments_delta,
        "response.output_item.done": ResponsesStream._item_done,
        "response.completed": ResponsesStream._ended,
        "response.incomplete": ResponsesStream._ended,
        "response.failed": ResponsesStream._failed,
    }
)
