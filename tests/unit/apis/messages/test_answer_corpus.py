"""Recorded chat answers of real providers, written as Messages: valid for the SDK, and with the same meaning."""

from collections import Counter
from typing import Any

from rig.corpus import read_recorded_file
from rig.large import large
from rig.message_events import check_events, check_message, read_events
from rig.message_writing import context
from rig.readers import Answer, anthropic_sdk, difference, read_arguments
from rig.recorded_chat_answers import SAMPLE, each_file, open_reader, read_chat, relay

from addon.answers.whole import BILLING_NOTE
from addon.apis.messages.answer import INVALID_JSON, MessagesWriter, write_whole
from addon.apis.translated_reader import TranslatedStreamReader, TranslatedWholeReader


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


@large
@each_file
def test_a_recorded_answer_is_a_valid_message_with_the_same_meaning(name: str):
    counts: Counter[str] = Counter()
    for record in read_recorded_file(name, SAMPLE):
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
