"""Whatever JSON is at any place of a native answer, its reader never raises, and what it relays is whole events."""

import json

import pytest
from rig.answer_samples import Sample
from rig.large import large, sized
from rig.native_responses import events, function_call, incomplete, message, reasoning, response

from addon.answers.context import AnswerContext
from addon.dialects.responses import native
from policies.family import Family

TEXTS = ("null", "5", "1e999", '"x"', '"\\ud800"', "[]", "[null]", '{"a": [1]}')
VALUES = [text.encode() for text in TEXTS[:: sized(4, 1)]]
CONTEXT = AnswerContext("house/slug", Family("plain"), secrets=("Zq7Rk2XwP9tLmB4vNs8",))
CITED = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2}
SAID = response(reasoning("Hm"), message("Hello you", annotations=[CITED]), function_call("f", {"a": 1}))
SAMPLES = {
    "whole": Sample("responses", "plain", False, (SAID,)),
    "incomplete": Sample("responses", "plain", False, (incomplete(message("Hel")),)),
    "stream": Sample("responses", "plain", True, tuple(events(SAID))),
}


def check(sample: Sample, pieces: list[bytes]) -> None:
    """Read an answer without the guard around its reader, so a fault of the reader fails the test."""
    reader = native.stream(CONTEXT) if sample.streamed else native.whole(CONTEXT, 1 << 20)
    shown = b"".join([*map(reader.feed, pieces), reader.finish()])
    assert reader.is_done or reader.failure is not None
    if reader.failure:
        assert reader.failure.type == "api_error" or reader.failure.status < 500
    if sample.streamed:
        *frames, rest = shown.split(b"\n\n")
        assert rest == b""
        for one in frames:
            assert isinstance(json.loads(one.removeprefix(b"data: ")), dict)
    else:
        assert bool(shown) == (reader.failure is None)
    assert reader.events_sent >= 0 and reader.relayed_text_chars >= 0
    assert isinstance(reader.finish_reason, str | None)
    counts = reader.usage and [getattr(reader.usage, name) for name in reader.usage.__struct_fields__]
    assert all(type(count) in (int, str, type(None)) for count in counts or ())


@large
@pytest.mark.parametrize("name", SAMPLES)
def test_each_value_at_each_place_is_read(name: str) -> None:
    sample = SAMPLES[name]
    check(sample, sample.encode())
    for place in [*sample.places()][:: sized(3, 1)]:
        for number, pieces in enumerate(sample.variants(place, VALUES)):
            try:
                check(sample, pieces)
            except Exception as failure:
                failure.add_note(f"value {number} at {place}")
                raise
