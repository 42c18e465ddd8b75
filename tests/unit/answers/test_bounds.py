"""The choices and the structure of an answer are bounded, whole or streamed."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rig.answer_shape import strict_json
from rig.relayed_streams import DONE, SOURCE, relay

from addon.answers.bounds import MAX_CHOICES, MAX_EVENT_VALUES, TOO_MANY_CHOICES, parse_bounded
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


def read_by(parse: object, text: bytes) -> str:
    """Return the value with its types and the order of its members, or that it can't be read."""
    try:
        return repr(parse(text))  # type: ignore[operator]
    except ValueError:
        return "unreadable"


NUMBERS = st.integers() | st.floats() | st.sampled_from([-0.0, 1e308, 5e-324, 2**63, 2**64, 10**40])
TEXTS = st.text(st.characters(codec=None), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(value=JSON, at=st.integers(0, 40), piece=st.binary(max_size=3))
@example(value=[], at=1, piece=b"NaN")
@example(value=[], at=1, piece=b"-Infinity")
@example(value=[], at=1, piece=b"1e999")
@example(value=[], at=1, piece=b'"\\ud800"')
@example(value=[], at=1, piece=b"123456789.12345678901234567890")
@example(value=[], at=1, piece=b"9" * 5_000)
@example(value={}, at=1, piece=b'"a":1,"b":2,"a":3')
@example(value={}, at=0, piece=b"\xef\xbb\xbf")
def test_the_fast_parser_reads_every_text_as_the_standard_library_does(
    value: object, at: int, piece: bytes
) -> None:
    text = json.dumps(value).encode()
    text = text[:at] + piece + text[at:]
    assert read_by(parse_bounded, text) == read_by(lambda given: strict_json(given.decode()), text)
