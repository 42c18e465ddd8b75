"""Usage, finish reason and model of an OpenAI-shaped stream."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig.relayed_streams import (
    DONE,
    HEAD,
    A,
    one_by_one,
    reader_of,
    relay,
)

from addon.answers import chunks
from addon.answers.context import AnswerContext
from policies.family import Family
from policies.model import Usage


def test_usage_is_read_from_any_event() -> None:
    groq = b'{"choices":[],"x_groq":{"usage":{"prompt_tokens":7,"completion_tokens":1}}}'
    own = b'{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_cache_hit_tokens":5}}'
    assert relay(b"data: %b\n\n" % groq, DONE).usage == Usage(7, 1)
    assert relay(b"data: %b\n\ndata: %b\n\n" % (groq, own), DONE).usage == Usage(7, 2, None, 5)
    assert relay(b"data: %b\n\ndata: %b\n\n" % (own, A), DONE).usage == Usage(7, 2, None, 5)
    assert relay(b"data: %b\n\n" % A, DONE).usage is None


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (['"stop"'], "stop"),
        (['"tool_calls"', '"stop"', "null"], "stop"),
        (["null", '""', '"eos_token"'], "eos_token"),
        (["7"], "7"),
        (["null"], None),
    ],
)
def test_the_last_finish_reason_that_is_not_empty_counts(reasons: list[str], expected: str | None) -> None:
    events = [b'data: {"choices":[{"delta":{},"finish_reason":%b}]}\n\n' % r.encode() for r in reasons]
    assert relay(*events, DONE).finish_reason == expected


def test_a_slug_is_written_as_JSON() -> None:
    reader = reader_of(source=AnswerContext('o"d\\d/sl\u00fcg', Family("plain")))
    out = reader.feed(b"data: %b\n\n" % A)
    assert json.loads(out.removeprefix(b"data: "))["model"] == 'o"d\\d/sl\u00fcg'


KEY = "Zq7Rk2XwP9tLmB4vNs8"
TEXTS = [
    b"a",
    b"two words",
    "\u00e4\u20ac".encode(),
    b'\\"',
    b"\\ud83d\\ude00",
    KEY[:9].encode(),
    KEY[9:].encode(),
    b"Zq7",
]
ALIKE = [
    b'data: {%b,"model":"up","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % (HEAD.encode(), text)
    for text in TEXTS
]
PADDED = [
    event.replace(b"}\n", b',"usage":null,"obfuscation":"%b"}\n' % padding)
    for event, padding in zip(
        ALIKE, [b"", b"a1", b"x" * 20, b"\\u0041", b"a", b"b", b"not plain", b"z"], strict=True
    )
]
UNLIKE = [
    *(
        PADDED[0].replace(b'""', b"null"),
        PADDED[1].replace(b'"a1"', b"12"),
        PADDED[1].replace(b'"a1"', b"345"),
    ),
    *(PADDED[1].replace(b'"a1"', b'"a1"x'), PADDED[1].replace(b"}\n", b',"obfuscation":"b"}\n')),
    *(event.replace(b"\n", b"\r\n") for event in ALIKE[:2]),
    *(event.replace(b"\n", b"\r") for event in ALIKE[:2]),
    *(b": comment\n\n", b"\n", b"data: {}\n\n", b"data: %b\n\n" % A, DONE),
    *(b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n', ALIKE[0].replace(b'"a"', b'"\xff"')),
    ALIKE[0].replace(b'"a"', b'"%b"' % (b"x" * 300)),
]


@given(
    st.lists(st.sampled_from(ALIKE) | st.sampled_from([*ALIKE, *UNLIKE]), max_size=12)
    | st.lists(st.sampled_from(PADDED) | st.sampled_from([*ALIKE, *PADDED, *UNLIKE]), max_size=12),
    st.lists(st.integers(0, 2_000), max_size=6),
    st.sampled_from([(), (KEY,)]),
)
@settings(max_examples=300, deadline=None)
def test_chunks_that_are_alike_are_relayed_as_if_each_was_read(
    events: list[bytes], cuts: list[int], secrets: tuple[str, ...]
) -> None:
    source = AnswerContext("house/slug", Family("plain"), secrets=secrets)
    stream = b"".join(events)
    ends = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(ends)]
    relayed = relay(*pieces, max_event_bytes=300, source=source)
    assert relayed == relay(*one_by_one(stream), max_event_bytes=300, source=source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "MAX_MISSES", 0)  # No template is made.
        assert relayed == relay(*pieces, max_event_bytes=300, source=source)
