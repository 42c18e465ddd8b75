"""Recorded chat answers of real providers, written as Responses: valid, complete, and with the same meaning."""

import json
from collections import Counter
from typing import Any

from rig.corpus import read_recorded_file
from rig.large import large
from rig.readers import difference
from rig.recorded_chat_answers import SAMPLE, each_file, open_reader, read_chat, relay
from rig.response_events import check_events, check_response, read_answer, read_events
from rig.response_writing import context

from addon.apis.responses.answer import ResponsesWriter, write_whole
from addon.apis.translated_reader import TranslatedStreamReader, TranslatedWholeReader


def write(record: dict[str, Any]) -> dict[str, Any]:
    """Return the whole answer that a Responses client gets, once it is checked."""
    inner = open_reader(record)
    if not record["stream"]:
        return check_response(
            json.loads(relay(TranslatedWholeReader(inner, write_whole, context()), record["response_text"]))
        )
    writer = TranslatedStreamReader(inner, ResponsesWriter(context()))
    events = read_events(relay(writer, record["response_text"]))
    assert writer.events_sent == len(events)
    return check_events(events)


@large
@each_file
def test_a_recorded_answer_is_a_valid_response_with_the_same_meaning(name: str):
    counts: Counter[str] = Counter()
    for record in read_recorded_file(name, SAMPLE):
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
