"""Recorded chat answers of real providers, written as Messages: valid for the SDK, and with the same meaning."""

import json
from collections import Counter
from typing import Any

import pytest
from rig.corpus import DIALECTS as SHAPES
from rig.corpus import FOLDER, needs_corpus, read_recorded_file, recorded_files
from rig.large import sized
from rig.message_events import check_events, check_message, read_events
from rig.message_writing import context
from rig.readers import Answer, anthropic_sdk, chat, difference, read_arguments
from rig.readers.events import event_texts

from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.answers.whole import BILLING_NOTE
from addon.apis.messages.answer import INVALID_JSON, MessagesWriter, write_whole
from addon.apis.translated_reader import TranslatedStreamReader, TranslatedWholeReader
from addon.dialects import DIALECTS
from policies.family import Family

SAMPLE = sized(6, 1)
"""One recording of so many, the first of each file among them."""
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


def read_messages(record: dict[str, Any]) -> Answer:
    """Return what a Messages client gets, once it is checked."""
    inner = open_reader(record)
    if not record["stream"]:
        body = relay(TranslatedWholeReader(inner, write_whole, context()), record["response_text"])
        check_message(body)
    else:
        reader = TranslatedStreamReader(inner, MessagesWriter(context()))
        body = relay(reader, record["response_text"])
        events = read_events(body)
        check_events(events)
        assert reader.events_sent == len(events)
    found = anthropic_sdk.read(body, stream=record["stream"]).choices[0]
    for call in found.calls:
        if isinstance(call.arguments, dict) and INVALID_JSON in call.arguments:
            call.arguments = read_arguments(call.arguments[INVALID_JSON])
    return Answer({0: found}, None)


def expected_of(answer: Answer) -> Answer:
    """Return what is left of a chat answer: the API has no blank text."""
    choice = answer.choices[0]
    choice.reasoning = choice.reasoning if choice.reasoning != BILLING_NOTE else ""
    choice.text = choice.text.lstrip() if choice.reasoning or not choice.text.strip() else choice.text
    if choice.finish_reason == "tool_calls" and not choice.calls:
        choice.finish_reason = "stop"
    return answer


@each_file
def test_a_recorded_answer_is_a_valid_message_with_the_same_meaning(name: str):
    counts: Counter[str] = Counter()
    for record in read_recorded_file(name)[::SAMPLE]:
        if record["status"] // 100 != 2 or (expected := read_chat(record)) is None:
            counts["no answer"] += 1
            continue
        if record["stream"] and any(isinstance(c.arguments, str) for c in expected.choices[0].calls):
            counts["no JSON"] += 1  # The SDK refuses arguments that can't become JSON.
            continue
        if expected.choices[0].finish_reason == "function_call":
            counts["older functions"] += 1  # This API can't ask for one.
            continue
        try:
            got = read_messages(record)
            if not expected.choices[0].text and got.choices[0].finish_reason == "content_filter":
                counts["refusals"] += 1  # The chat reader does not read their text.
                continue
            if expected.choices[0].reasoning:  # White space before reasoning is no block.
                got.choices[0].text = got.choices[0].text.lstrip()
            assert difference(got, expected_of(expected)) is None
        except Exception as failure:
            failure.add_note(f"recording {record['id']}")
            raise
        counts["same"] += 1
    print(name, dict(counts))
