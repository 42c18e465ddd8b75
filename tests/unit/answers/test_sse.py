"""Events are found in any framing, and their size is bounded."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.relayed_streams import (
    A_,
    DONE,
    END,
    END_,
    A,
    chunk,
    one_by_one,
    reader_of,
    relay,
)

from addon.answers.silence import MAX_SILENT_BYTES
from addon.answers.sse import MAX_EVENT_LINES
from addon.answers.stream import MAX_EVENT_BYTES
from addon.text.errors import ErrorAnswer


@given(
    st.lists(
        st.sampled_from([b"data", b":", b" ", b"\r", b"\n", A, b"[DONE]", b"event", b"error"]), max_size=14
    )
)
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
        relay(lines + end, DONE, max_event_bytes=MAX_EVENT_BYTES).out.count(b'"house/slug"')
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


# Streams that say nothing.

SILENT = {
    "blank lines": b"\n",
    "blank lines, CRLF": b"\r\n",
    "comments": b":\n\n",
    "lines of comments": b": a\n: b\n\n",
    "comments, CRLF": b": wait\r\n\r\n",
    "an empty event": b"data:\n\n",
    "an event without data": b"event: ping\n\n",
    "an object": b"data: {}\n\n",
    "empty choices": b'data: {"choices":[]}\n\n',
    "a ping": b'event: ping\ndata: {"type":"ping"}\n\n',
    "empty choices and a member": b'data: {"choices":[],"x":1}\n\n',
    "two members in turn": b'data: {"choices":[],"x":1}\n\ndata: {"choices":[],"y":2}\n\n',
    "two values in turn": b'data: {"choices":[],"x":1}\n\ndata: {"choices":[],"x":2}\n\n',
    "a usage": b'data: {"choices":[],"usage":{"prompt_tokens":3}}\n\n',
}


@pytest.mark.parametrize("part", SILENT.values(), ids=SILENT)
def test_what_says_nothing_is_looked_into_once(part: bytes) -> None:
    steps = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    def read(times: int) -> int:
        nonlocal steps
        reader = reader_of()
        reader.feed(b"data: %b\n\n" % A)
        reader.feed(part)
        piece, steps = part * times, 0
        sys.setprofile(count)
        reader.feed(piece)
        sys.setprofile(None)
        assert reader.failure is None
        return steps

    # A thousand more cost at most one call in C for each event, to find where it ends.
    assert read(2000) - read(1000) <= 1000 * max(1, part.count(b"data:"))


@pytest.mark.parametrize("part", SILENT.values(), ids=SILENT)
@pytest.mark.parametrize("has_begun", [True, False], ids=["begun", "not begun"])
def test_a_stream_that_goes_on_without_content_ends(part: bytes, has_begun: bool) -> None:
    reader, piece = reader_of(), part * (60_000 // len(part))
    if has_begun:
        assert reader.feed(b"data: %b\n\n" % A)
    fed = 0
    while reader.failure is None:
        reader.feed(piece)
        fed += len(piece)
        assert fed <= MAX_SILENT_BYTES + len(piece)
    assert fed > MAX_SILENT_BYTES
    assert reader.failure.code == "upstream_error"
    assert reader.failure.status == 502
    assert "without content" in reader.failure.message


def test_content_begins_the_bound_anew() -> None:
    reader = reader_of()
    for _ in range(40):
        reader.feed(b"data: %b\n\n" % A)
        reader.feed(b"\n" * 60_000)
    assert reader.failure is None


CONTENT: list[dict[str, object]] = [
    {"content": [{"type": "text", "text": "x"}]},
    {"reasoning_content": "x"},
    {"reasoning": "x"},
    {"reasoning_details": [{"type": "reasoning.text", "text": "x"}]},
    {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
    {"refusal": "x"},
    {"tool_calls": [{"index": 0, "function": {"arguments": "1"}}]},
    {"tool_calls": [{"index": 0, "custom": {"input": "x"}}]},
    {"function_call": {"arguments": "1"}},
    {"audio": {"id": "a", "data": "AAAA"}},
    {"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
    {"annotations": [{"type": "url_citation"}]},
    {"unknown_today": "x"},
]


@pytest.mark.parametrize("delta", CONTENT, ids=[json.dumps(delta)[:40] for delta in CONTENT])
def test_content_of_each_kind_begins_the_bound_anew(delta: dict[str, object]) -> None:
    reader = reader_of(MAX_EVENT_BYTES)
    reader.feed(b"data: %b\n\n" % A)
    choices = [{"index": 0, "delta": delta, "finish_reason": None}]
    said = {"object": "chat.completion.chunk", "choices": choices, "obfuscation": "x" * 60_000}
    event = b"data: %b\n\n" % json.dumps(said).encode()
    for _ in range(MAX_SILENT_BYTES // len(event) + 2):
        reader.feed(event)
    assert reader.failure is None


def test_one_large_event_is_no_silence() -> None:
    reader = reader_of(MAX_EVENT_BYTES)
    event = b"data: %b\n\n" % chunk("x" * (MAX_SILENT_BYTES * 3))
    for at in range(0, len(event), 60_000):
        reader.feed(event[at : at + 60_000])
    assert reader.failure is None
    assert reader.relayed_text_chars == MAX_SILENT_BYTES * 3


def test_an_answer_that_is_complete_outlives_the_silence_after_it() -> None:
    reader = reader_of()
    out = reader.feed(b"data: %b\n\ndata: %b\n\n" % (A, END))
    while not reader.is_done:
        out += reader.feed(b"\n" * 60_000)
        assert reader.failure is None
    assert out == b"data: %b\n\n" % A_ + b"data: %b\n\n" % END_ + DONE
