"""Usage, finish reason and model of an OpenAI-shaped stream."""

import json

import pytest
from rig.relayed_streams import (
    DONE,
    A,
    reader_of,
    relay,
)

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
