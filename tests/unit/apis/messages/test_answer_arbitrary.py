"""Whatever JSON is at any place of a provider's answer, a Messages client gets a valid one, or the provider failed."""

import json

import pytest
from rig.answer_samples import SAMPLES, Sample
from rig.large import large, sized
from rig.message_events import GRAMMAR, read_events
from rig.message_writing import context
from rig.sent import shipped_families

from addon.answers.context import AnswerContext
from addon.answers.reader import AnswerReader
from addon.apis.messages.answer import MessagesWriter, write_whole
from addon.apis.translated_reader import TranslatedStreamReader, TranslatedWholeReader
from addon.dialects import DIALECTS
from addon.dialects.anthropic import native

TEXTS = ("null", "5", '"x"', "[]", "[null]", '{"a": [1e999]}')
VALUES = [text.encode() for text in TEXTS[:: sized(2, 1)]]
THROUGH_CHAT = [name for name in SAMPLES if name.startswith(("openai", "gemini"))]
NATIVE = [name for name in SAMPLES if name.startswith("anthropic")]


def asked(sample: Sample) -> AnswerContext:
    return AnswerContext("house/slug", shipped_families()[sample.family], secrets=("Zq7Rk2XwP9tLmB4vNs8",))


def read(reader: AnswerReader, pieces: list[bytes]) -> bytes:
    """Read an answer without the guard around its reader, so a fault of the reader fails the test."""
    return b"".join([*map(reader.feed, pieces), reader.finish()])


def variants(sample: Sample) -> list[list[bytes]]:
    return [
        pieces for place in [*sample.places()][:: sized(2, 1)] for pieces in sample.variants(place, VALUES)
    ]


@large
@pytest.mark.parametrize("name", THROUGH_CHAT)
def test_through_chat(name: str):
    sample = SAMPLES[name]
    dialect = DIALECTS[sample.dialect]
    for pieces in variants(sample):
        if not sample.streamed:
            whole = TranslatedWholeReader(dialect.whole(asked(sample), 1 << 20), write_whole, context())
            body = read(whole, pieces)
            assert whole.failure if not body else json.loads(body)["type"] == "message"
            continue
        stream = TranslatedStreamReader(dialect.stream(asked(sample)), MessagesWriter(context()))
        kinds = "".join(f"{event['type']} " for event in read_events(read(stream, pieces)))
        assert stream.failure or GRAMMAR.fullmatch(kinds), kinds


@large
@pytest.mark.parametrize("name", NATIVE)
def test_native(name: str):
    sample = SAMPLES[name]
    for pieces in variants(sample):
        whole = native.whole(asked(sample), 1 << 20)
        reader = native.stream(asked(sample)) if sample.streamed else whole
        shown = read(reader, pieces)
        assert reader.failure or b"house/slug" in shown
