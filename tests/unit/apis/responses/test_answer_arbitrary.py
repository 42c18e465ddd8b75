"""Whatever JSON is at any place of a chat answer: where a chat client gets an answer, a Responses client does, too."""

import json

import pytest
from rig.answer_samples import SAMPLES, Sample
from rig.large import large, sized
from rig.response_events import check_events, check_response, read_events
from rig.response_writing import context

from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.apis import APIS
from addon.dialects import DIALECTS
from policies.family import Family

TEXTS = ("5", "1e999", '"x"', "[null]", '[{"a": [1]}]')
VALUES = [text.encode() for text in TEXTS[:: sized(4, 1)]]
CONTEXT = AnswerContext("house/slug", Family("plain"), choices=1)


def open_chat(sample: Sample) -> AnswerReader:
    dialect = DIALECTS[sample.dialect]
    return dialect.stream(CONTEXT) if sample.streamed else dialect.whole(CONTEXT, 1 << 20)


def relay(reader: AnswerReader, pieces: list[bytes]) -> bytes:
    return b"".join([*map(reader.feed, pieces), reader.finish()])


def check(sample: Sample, pieces: list[bytes]) -> None:
    chat = open_chat(sample)
    relay(chat, pieces)
    reader = APIS["responses"].translate(open_chat(sample), context(), streams=sample.streamed)
    shown = relay(reader, pieces)
    assert (reader.failure is None) == (chat.failure is None)
    if sample.streamed and reader.failure is None:
        check_events(read_events(shown))
    elif sample.streamed:
        read_events(shown)
    elif reader.failure is None:
        check_response(json.loads(shown))


@large
@pytest.mark.parametrize("name", [name for name in SAMPLES if name.startswith("openai")])
def test_each_value_at_each_place_is_written(name: str) -> None:
    sample = SAMPLES[name]
    check(sample, sample.encode())
    for place in [*sample.places()][:: sized(4, 1)]:
        for number, pieces in enumerate(sample.variants(place, VALUES)):
            try:
                check(sample, pieces)
            except Exception as failure:
                failure.add_note(f"value {number} at {place}")
                raise
