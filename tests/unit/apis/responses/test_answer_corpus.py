"""Recorded chat answers of real providers, written as Responses: valid, complete, and with the same meaning."""

import json
from collections import Counter
from typing import Any

import pytest
from rig.corpus import DIALECTS as SHAPES
from rig.corpus import FOLDER, needs_corpus, read_recorded_file, recorded_files
from rig.large import sized
from rig.readers import Answer, chat, difference
from rig.readers.events import event_texts
from rig.response_events import check_events, check_response, read_answer, read_events

from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.apis.responses.answer import ResponsesWriter, write_whole
from addon.apis.translated_reader import TranslatedStreamReader, TranslatedWholeReader
from addon.apis.writer import WriterContext
from addon.dialects import DIALECTS
from policies.family import Family

SAMPLE = sized(6, 1)
"""One recording of so many, the first of each file among them."""
WRITER = WriterContext("0b5c9c1e-call", "house/slug", 1_760_000_000, 11, {"model": "m", "input": "hi"})
ASKED = AnswerContext("house/slug", Family("plain"), choices=1)
each_file = pytest.mark.parametrize(
    "name", recorded_files(*SHAPES) if FOLDER else [pytest.param("", marks=needs_corpus, id="no-recordings")]
)


def open_reader(record: dict[str, Any]) -> AnswerReader:
    dialect = DIALECTS[SHAPES[record["api"]]]
    return dialect.stream(ASKED) if record["stream"] else dialect.whole(ASKED, 1 << 26)


def relay(reader: AnswerReader, text: str) -> bytes:
    body = text.encode()
    pieces = [body[at : at + 700] for at in range(0, len(body), 700)]
    return b"".join([*map(reader.feed, pieces), reader.finish()])


def read_chat(record: dict[str, Any]) -> Answer | None:
    """Return what a chat client gets; None for an answer that fails, or has several choices."""
    reader = open_reader(record)
    out = relay(reader, record["response_text"]).decode()
    if reader.failure:
        return None
    payloads = [json.loads(one) for one in (event_texts(out) if record["stream"] else [out])]
    found = chat.read(payloads, think_tags=False)
    return Answer(found.choices, None) if set(found.choices) == {0} else None


def write(record: dict[str, Any]) -> dict[str, Any]:
    """Return the whole answer that a Responses client gets, once it is checked."""
    inner = open_reader(record)
    if not record["stream"]:
        return check_response(
            json.loads(relay(TranslatedWholeReader(inner, write_whole, WRITER), record["response_text"]))
        )
    writer = TranslatedStreamReader(inner, ResponsesWriter(WRITER))
    events = read_events(relay(writer, record["response_text"]))
    assert writer.events_sent == len(events)
    return check_events(events)


@each_file
def test_a_recorded_answer_is_a_valid_response_with_the_same_meaning(name: str):
    counts: Counter[str] = Counter()
    for record in read_recorded_file(name)[::SAMPLE]:
        if record["status"] // 100 != 2 or (expected := read_chat(record)) is None:
            counts["no answer"] += 1
            continue
        if expected.choices[0].finish_reason == "function_call":
            counts["older functions"] += 1  # This API can't ask for one.
            continue
        try:
            got = read_answer(write(record))
            if expected.choices[0].finish_reason == "tool_calls" and not expected.choices[0].calls:
                expected.choices[0].finish_reason = "stop"
            assert difference(got, expected) is None
        except Exception as failure:
            failure.add_note(f"recording {record['id']}")
            raise
        counts["same"] += 1
    print(name, dict(counts))
