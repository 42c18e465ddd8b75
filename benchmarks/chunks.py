"""The cost of rewriting one streamed chunk: the readers of answers alone, without a network."""

import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.apis import APIS
from addon.apis.writer import WriterContext
from addon.dialects import DIALECTS, NATIVE_DIALECTS
from benchmarks.tables import table
from policies.family import Family

CHUNKS = 20_000
PASS_THROUGH_AIM_US, DIALECT_AIM_US = 15, 40
_WORDS = ("The", " gateway", " forwards", " what", " the", " provider", " said", ",", " and", " counts")


@dataclass(frozen=True, slots=True)
class Stream:
    """One kind of stream: the events before its text, and the template of an event with text."""

    name: str
    dialect: str
    event: str
    aim_us: int
    opening: tuple[dict[str, Any], ...] = ()
    family: Family = Family("bench")
    api: Literal["chat", "messages", "responses"] = "chat"
    """The API of the client."""

    def events(self) -> Iterator[bytes]:
        """Yield ``CHUNKS`` events that differ like real ones."""
        for number in range(CHUNKS):
            text = json.dumps(_WORDS[number % len(_WORDS)])
            # OpenAI pads chunks to different lengths, so the bytes around the text differ too.
            padded = self.event.replace("PADDING", "x" * (1 + number % 7)).replace(
                "BLANKS", " " * (number % 14)
            )
            yield padded.replace("TEXT", text).replace("NUMBER", str(number + 4)).encode()

    def open(self, context: AnswerContext) -> AnswerReader:
        """Return the reader of the stream."""
        api = APIS[self.api]
        if self.dialect == api.NATIVE_DIALECT:
            return NATIVE_DIALECTS[self.dialect].stream(context)
        return api.translate(DIALECTS[self.dialect].stream(context), _WRITER, streams=True)


def _chat(delta: str, more: str = "") -> str:
    return (
        'data: {"id":"chatcmpl-AbCdEfGhIjKlMnOpQrStUvWxYz012","object":"chat.completion.chunk",'
        '"created":1763720000,"model":"gpt-5.4-mini-2026-03-05","system_fingerprint":"fp_0123456789",'
        f'"choices":[{{"index":0,"delta":{{{delta}}},"logprobs":null,"finish_reason":null}}]{more}}}\n\n'
    )


_WRITER = WriterContext("call", "house/slug", 1_763_720_000, 9, {})
_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": [],
    "usage": {"input_tokens": 9},
}
_ANTHROPIC = (
    {"type": "message_start", "message": _MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
)
_RESPONSES = (
    {"type": "response.created", "response": {"model": "m"}, "sequence_number": 0},
    {
        "type": "response.output_item.added",
        "item": {"type": "message"},
        "output_index": 0,
        "sequence_number": 1,
    },
)
STREAMS = (
    Stream("chat, chunks alike", "openai", _chat('"content":TEXT'), PASS_THROUGH_AIM_US),
    Stream(
        "chat, padded by the provider",
        "openai",
        _chat('"content":TEXT', ',"usage":null,"obfuscation":"PADDING"'),
        PASS_THROUGH_AIM_US,
    ),
    Stream("chat, reasoning renamed", "openai", _chat('"reasoning":TEXT'), PASS_THROUGH_AIM_US),
    Stream(
        "chat, reasoning renamed, padded",
        "openai",
        _chat('"reasoning":TEXT', ',"p":"PADDING"'),
        DIALECT_AIM_US,
    ),
    Stream(
        "chat, think tags looked for",
        "openai",
        _chat('"content":TEXT', ',"p":"PADDING"'),
        DIALECT_AIM_US,
        family=Family("bench", think_tags=True),
    ),
    Stream(
        "anthropic, padded by the provider",
        "anthropic",
        "event: content_block_delta\ndata: "
        '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":TEXT}BLANKS}\n\n',
        DIALECT_AIM_US,
        opening=_ANTHROPIC,
    ),
    Stream(
        "messages, native, padded by the provider",
        "anthropic",
        "event: content_block_delta\ndata: "
        '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":TEXT}BLANKS}\n\n',
        PASS_THROUGH_AIM_US,
        opening=_ANTHROPIC,
        api="messages",
    ),
    Stream(
        "messages, from chat chunks alike",
        "openai",
        _chat('"content":TEXT'),
        DIALECT_AIM_US,
        api="messages",
    ),
    Stream(
        "gemini",
        "gemini",
        'data: {"candidates": [{"content": {"parts": [{"text": TEXT}],"role": "model"},"index": 0}],'
        '"usageMetadata": {"promptTokenCount": 9,"candidatesTokenCount": 5,"totalTokenCount": 14,'
        '"promptTokensDetails": [{"modality": "AUDIO","tokenCount": 9}]},"modelVersion": "gemini-3-flash",'
        '"responseId": "AbCdEfGhIjKl"}\r\n\r\n',
        DIALECT_AIM_US,
    ),
    Stream(
        "responses, natively",
        "responses",
        "event: response.output_text.delta\ndata: "
        '{"type":"response.output_text.delta","content_index":0,"delta":TEXT,"item_id":"msg_0123456789abcdef",'
        '"logprobs":[],"obfuscation":"PADDING","output_index":0,"sequence_number":NUMBER}\n\n',
        PASS_THROUGH_AIM_US,
        opening=_RESPONSES,
        api="responses",
    ),
    Stream("responses through chat", "openai", _chat('"content":TEXT'), DIALECT_AIM_US, api="responses"),
)


def run(rounds: int) -> None:
    """Print the cost of a chunk of each stream: the median of ``rounds``."""
    rows = []
    for stream in STREAMS:
        cost_us = statistics.median(_microseconds(stream) for _ in range(rounds))
        rows.append((stream.name, f"{cost_us:.1f}", f"< {stream.aim_us}"))
    print(table(rows, ("stream", "µs a chunk", "aim")))


def _microseconds(stream: Stream) -> float:
    context = AnswerContext(
        "house/slug", stream.family, {"gpt-5.4-mini-2026-03-05": "house/slug"}, ("secret",)
    )
    reader = stream.open(context)
    for opening in stream.opening:
        reader.feed(b"data: " + json.dumps(opening).encode() + b"\n\n")
    events = list(stream.events())
    started = time.perf_counter()
    for event in events:
        reader.feed(event)
    elapsed_s = time.perf_counter() - started
    if reader.failure or not reader.relayed_text_chars:
        raise RuntimeError(f"{stream.name} was not relayed: {reader.failure}")
    return elapsed_s / CHUNKS * 1e6
