"""The choices and the structure of an answer are bounded, whole or streamed."""

import pytest
from rig.relayed_streams import DONE, SOURCE, relay

from addon.answers.bounds import MAX_CHOICES, MAX_EVENT_VALUES, TOO_MANY_CHOICES
from addon.answers.stream import MAX_EVENT_BYTES
from addon.answers.whole import rewrite_answer
from addon.text.errors import ErrorAnswer
from addon.text.json_scan import MAX_VALUES


def test_the_choices_of_an_answer_are_bounded() -> None:
    one = b'{"index":%d,"delta":{"content":"a"}}'
    every = [one % index for index in range(MAX_CHOICES + 1)]
    in_one = b'data: {"choices":[%b]}\n\n'
    assert relay(in_one % b",".join(every[:-1]), DONE, max_event_bytes=MAX_EVENT_BYTES).failure is None
    assert relay(*[in_one % choice for choice in every[:-1]], DONE).failure is None
    assert relay(in_one % b",".join(every), DONE, max_event_bytes=MAX_EVENT_BYTES).failure == TOO_MANY_CHOICES
    assert relay(*[in_one % choice for choice in every], DONE).failure == TOO_MANY_CHOICES


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (b'{"choices":[],"x":[%b1]}' % (b"1," * MAX_EVENT_VALUES), f"more than {MAX_EVENT_VALUES:,} values"),
        (b'{"choices":[],"x":%b}' % (b"[" * 65 + b"]" * 65), "deeper than 64 levels"),
        (b"[" * 1_000_000, "deeper than 64 levels"),
    ],
    ids=["values", "depth", "depth without an end"],
)
def test_the_structure_of_an_event_is_bounded_before_it_is_parsed(payload: bytes, says: str) -> None:
    result = relay(b"data: %b\n\n" % payload, DONE, max_event_bytes=MAX_EVENT_BYTES)
    assert isinstance(result.failure, ErrorAnswer)
    assert says in result.failure.message


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (b"[%b1]" % (b"1," * MAX_VALUES), "more than 250,000 values"),
        (b"[" * 65 + b"]" * 65, "deeper than 64 levels"),
        (b"[" * 5_000_000, "deeper than 64 levels"),
    ],
    ids=["values", "depth", "depth without an end"],
)
def test_the_structure_of_an_answer_is_bounded_before_it_is_parsed(more: bytes, says: str) -> None:
    failure = rewrite_answer(b'{"choices":[],"x":%b}' % more, SOURCE).failure
    assert failure is not None
    assert says in failure.message
