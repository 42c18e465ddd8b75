"""Events are found in any framing, and their size is bounded."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig.relayed_streams import (
    A_,
    DONE,
    A,
    one_by_one,
    reader_of,
    relay,
)

from addon.answers.stream import MAX_EVENT_BYTES, MAX_EVENT_LINES
from addon.text.errors import ErrorAnswer


@given(
    st.lists(
        st.sampled_from([b"data", b":", b" ", b"\r", b"\n", A, b"[DONE]", b"event", b"error"]), max_size=14
    )
)
@settings(max_examples=200, deadline=None)
def test_any_framing_gives_the_same_result_byte_by_byte(parts: list[bytes]) -> None:
    stream = b"".join(parts)
    result = relay(stream)
    assert relay(*one_by_one(stream)) == result
    assert b'"up"' not in result.out


def test_an_event_may_be_as_large_as_the_bound() -> None:
    event = b"data: %b\n\n" % A
    for pieces in ([event, DONE], one_by_one(event + DONE)):
        assert relay(*pieces, max_event_bytes=len(event)).is_done
        assert relay(*pieces, max_event_bytes=len(event) - 1).failure is not None


def test_an_endless_line_fails_and_is_dropped() -> None:
    reader = reader_of(10_000)
    for _ in range(100):
        reader.feed(b"x" * 1000)
    assert reader.failure is not None
    assert reader.failure.status == 502
    assert reader._splitter.pending_bytes == 0


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_the_lines_of_an_event_are_bounded(end: bytes) -> None:
    lines = (b"data: %b" % A + end) * MAX_EVENT_LINES
    assert (
        relay(lines + b"\n", DONE, max_event_bytes=MAX_EVENT_BYTES).out.count(b'"house/slug"')
        == MAX_EVENT_LINES
    )
    result = relay(lines + b"data: 1" + end + end, DONE, max_event_bytes=MAX_EVENT_BYTES)
    assert isinstance(result.failure, ErrorAnswer)
    assert f"more than {MAX_EVENT_LINES} lines" in result.failure.message


def test_an_event_of_a_thousand_lines_is_relayed_as_one() -> None:
    middle = MAX_EVENT_LINES // 2
    event = b"data: " + A[:1] + b"\n" + b"data:\n" * middle + b"data:" + A[1:-1] + b"\n"
    event += b"data:\n" * (MAX_EVENT_LINES - middle - 5) + b"data: }\n\n"
    sent = relay(event, DONE, max_event_bytes=MAX_EVENT_BYTES).out
    assert sent.endswith(b"\n\n" + DONE)
    assert sent.count(b"\n") == 4
    assert json.loads(sent.split(b"\n")[0][6:]) == json.loads(A_)
