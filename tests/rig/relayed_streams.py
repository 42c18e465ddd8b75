"""Streams of an OpenAI-shaped provider, and the reader that relays them."""

import json
from dataclasses import dataclass

from addon.answers.chunks import ChatChunks
from addon.answers.context import AnswerContext
from addon.answers.stream import MAX_EVENT_BYTES, StreamedAnswerReader
from policies.family import Family
from policies.usage import Usage

SLUG = "house/slug"
SOURCE = AnswerContext(SLUG, Family("plain"), {"up": SLUG})


@dataclass(frozen=True)
class Result:
    """All that a reader shows at the end of a stream."""

    out: bytes
    usage: Usage | None
    finish_reason: str | None
    text_chars: int
    failure: object
    is_done: bool


def reader_of(max_event_bytes: int = MAX_EVENT_BYTES, source: AnswerContext = SOURCE) -> StreamedAnswerReader:
    return StreamedAnswerReader(ChatChunks(source), source, max_event_bytes)


def relay(*pieces: bytes, max_event_bytes: int = 2000, source: AnswerContext = SOURCE) -> Result:
    reader = reader_of(max_event_bytes, source)
    out = b"".join([*map(reader.feed, pieces), reader.finish()])
    assert reader.feed(b"data: {}\n\n") + reader.finish() == b"", "nothing follows the end"
    return Result(
        out,
        reader.usage,
        reader.finish_reason,
        reader.relayed_text_chars,
        reader.failure,
        reader.is_done,
    )


def one_by_one(stream: bytes) -> list[bytes]:
    return [stream[i : i + 1] for i in range(len(stream))]


HEAD = '"id":"c1","object":"chat.completion.chunk","created":1'


def chunk(text: str = "hi", *, finish: str | None = None, model: str = "up", more: str = "") -> bytes:
    delta = json.dumps({"content": text}, ensure_ascii=False)
    return (
        f'{{{HEAD},"model":"{model}","choices":[{{"index":0,"delta":{delta},'
        f'"finish_reason":{json.dumps(finish)}}}]{more}}}'
    ).encode()


def named(payload: bytes) -> bytes:
    return payload.replace(b'"model":"up"', b'"model":"house/slug"')


def frames(*payloads: bytes) -> bytes:
    return b"".join(b"data: %b\n\n" % payload for payload in payloads)


A, B, END = chunk("ä€😀"), chunk(" two"), chunk("", finish="stop")
A_, B_, END_ = map(named, (A, B, END))
COUNTS = b'{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5.0e0}'
USAGE = b'{%b,"model":"up","choices":[],"usage":%b}' % (HEAD.encode(), COUNTS)
DONE = b"data: [DONE]\n\n"
SPREAD = A.replace(b",", b",\n").split(b"\n")
