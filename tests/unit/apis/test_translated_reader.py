"""Readers that write another API's answer: a fault of theirs, or around them, is a failure of the provider."""

import pytest
from rig.response_events import read_events
from rig.response_writing import call, chunk, context
from rig.scripts import event

from addon.answers.context import AnswerContext
from addon.answers.guarded_reader import GuardedReader
from addon.answers.inflating_reader import InflatingReader
from addon.apis import APIS
from addon.dialects import DIALECTS
from policies.family import Family

CONTEXT = AnswerContext("house/slug", Family("plain"), choices=1)
CALLS = (call(0, "{}", "call_a", "f"), call(1, "", "call_b", "g"), call(0, '{"late": 1}'))


def test_what_can_not_be_written_is_an_unreadable_answer() -> None:
    inner = APIS["responses"].translate(DIALECTS["openai"].stream(CONTEXT), context(), streams=True)
    reader = GuardedReader(inner)
    sent = [reader.feed(event({"id": "c", **chunk(delta)})) for delta in CALLS]
    assert sent[-1] == b""
    assert reader.failure is not None
    assert reader.failure.status == 502
    assert reader.events_sent == len(read_events(b"".join(sent)))


@pytest.mark.parametrize("streams", [False, True])
def test_a_compressed_answer_that_is_broken_is_a_failure(streams: bool) -> None:
    dialect = DIALECTS["openai"]
    chat = dialect.stream(CONTEXT) if streams else dialect.whole(CONTEXT, 1000)
    reader = GuardedReader(InflatingReader(APIS["responses"].translate(chat, context(), streams=streams)))
    reader.feed(b"no gzip at all")
    assert reader.failure is not None
    assert "compression" in reader.failure.message
