"""The reader of a stream gives the same result for every way of cutting the stream into pieces."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.large import sampled
from rig.relayed_streams import (
    A_,
    B_,
    COUNTS,
    DONE,
    END,
    END_,
    SLUG,
    SPREAD,
    USAGE,
    A,
    B,
    chunk,
    frames,
    named,
    one_by_one,
    reader_of,
    relay,
)

from addon.answers.stream import MAX_HELD_BYTES
from policies.usage import Usage

# case: what the provider sends, what the client gets
WHOLE: dict[str, tuple[bytes, bytes]] = {
    "plain": (
        frames(A, END, USAGE) + DONE,
        frames(A_, b'{"usage":%b,' % COUNTS + END_[1:]) + DONE,
    ),
    "crlf": (b"data: %b\r\n\r\ndata: %b\r\n\r\ndata: [DONE]\r\n\r\n" % (A, END), frames(A_, END_) + DONE),
    "lone cr": (b"data: %b\r\rdata: %b\r\rdata: [DONE]\r\r" % (A, END), frames(A_, END_) + DONE),
    "mixed line ends": (
        b"data: %b\r\n\ndata: %b\n\r\ndata: %b\r\r\ndata: %b\n\rdata: [DONE]\r\n\r" % (A, B, B, END),
        frames(A_, B_, B_, END_) + DONE,
    ),
    "no space after the colon": (b"data:%b\n\ndata:[DONE]\n\n" % A, frames(A_) + DONE),
    "spaces around": (b"data:   %b \t\n\ndata:  [DONE] \n" % A, frames(A_) + DONE),
    "comments": (
        b": wait\n\n: wait\n\ndata: %b\n\n: still\r\n:\n\ndata: [DONE]\n\n" % A,
        b": wait\n\n: wait\n\n" + frames(A_) + b": still\n\n:\n\n" + DONE,
    ),
    "other fields": (
        b"retry: 10\n\nevent: message\nid: 1\n: x\ndata: %b\nfoo: bar\n\nid\n\ndata: [DONE]\n\n" % A,
        frames(A_) + DONE,
    ),
    "byte order mark": (b"\xef\xbb\xbfdata: %b\n\n" % A + DONE, frames(A_) + DONE),
    "blank lines": (b"\n\ndata: %b\n\n\ndata: %b\n\n\n\n\n" % (A, B) + DONE, frames(A_, B_) + DONE),
    "blank lines at the end": (b"data: %b\n\n\n" % END, frames(END_) + DONE),
    "several data lines": (
        b"\r\n".join(b"data: %b" % line for line in SPREAD) + b"\ndata:\n\n" + DONE,
        frames(named(b" ".join(SPREAD))) + DONE,
    ),
    "model over several data lines": (
        b'data: {\ndata: "model":{\ndata: "x":1}\ndata: ,%b\n\n' % A[1:].replace(b'"model":"up",', b"")
        + DONE,
        frames(b'{ "model":"house/slug" ,' + A[1:].replace(b'"model":"up",', b"")) + DONE,
    ),
    "two events without a blank line": (b"data:%b\ndata:%b" % (A, END), frames(A_, END_) + DONE),
    "no model": (
        frames(A.replace(b'"model":"up",', b"")) + DONE,
        frames(b'{"model":"house/slug",' + A[1:].replace(b'"model":"up",', b"")) + DONE,
    ),
    "events that are not chunks": (
        frames(A, b'{"type":"ping"}', b'{"model":"up"}') + DONE,
        frames(A_) + DONE,
    ),
    "a model deeper inside": (
        frames(b'{"a":{"model":"up"},' + A[1:]) + DONE,
        frames(b'{"a":{"model":"up"},' + A_[1:]) + DONE,
    ),
    "error null is no error": (
        frames(chunk(more=',"error":null')) + DONE,
        frames(named(chunk(more=',"error":null'))) + DONE,
    ),
    "an event without content in its data": (b"data: %b\n\ndata:\n\n" % A + DONE, frames(A_) + DONE),
    "bytes after done": (frames(A) + DONE + b"data: {nonsense\n\n: x", frames(A_) + DONE),
    "no done": (frames(END), frames(END_) + DONE),
    "no done, a comment at the end": (frames(END) + b": x", frames(END_) + DONE),
    "no done, no newline": (b"data: %b" % END, frames(END_) + DONE),
    "no done, one newline": (b"data: %b\n" % END, frames(END_) + DONE),
    "no done, one crlf": (b"data: %b\r\n" % END, frames(END_) + DONE),
    "no done, one cr": (b"data: %b\r" % END, frames(END_) + DONE),
    "done without newline": (b"data: %b\n\ndata: [DONE]" % A, frames(A_) + DONE),
    "done with one newline": (b"data: %b\n\ndata: [DONE]\n" % A, frames(A_) + DONE),
    "a cut inside an event after the finish_reason": (frames(END) + b"data: [DO", frames(END_) + DONE),
    "a cut inside a field name after the finish_reason": (frames(END) + b"dat", frames(END_) + DONE),
    "a cut after the field name after the finish_reason": (frames(END) + b"data:", frames(END_) + DONE),
}


GOOD = b"data: %b\n\n" % A


GOOD_ = b"data: %b\n\n" % A_


ERROR = b'{"error":{"message":"model up is busy","code":"x"}}'


# case: what the provider sends, what the client gets before the failure
BROKEN: dict[str, tuple[bytes, bytes]] = {
    "nothing at all": (b"", b""),
    "only comments": (b": wait\n\n: wait\n\n", b""),
    "a cut after an event": (GOOD, GOOD_),
    "a cut inside an event": (GOOD + b"data: " + B[:-9], GOOD_),
    "a cut inside a character": (GOOD + b"data: " + A[: A.index(b"\xe2") + 1], GOOD_),
    "an empty finish_reason": (frames(chunk(finish="")), frames(named(chunk().replace(b": ", b":")))),
    "only done": (DONE, b""),
    "only usage": (frames(USAGE) + DONE, b""),
    "only events that are not chunks": (frames(b'{"type":"ping"}') + DONE, b""),
    "an error after the last finish_reason": (GOOD + frames(END, ERROR), GOOD_ + frames(END_)),
    "one choice of two that is open": (
        frames(A, A.replace(b'"index":0', b'"index":1'), END),
        frames(A_, A_.replace(b'"index":0', b'"index":1'), END_),
    ),
    "error first": (b"data: %b\n\n" % ERROR + DONE, b""),
    "error after a comment": (b": wait\n\ndata: %b\n\n" % ERROR, b""),
    "error later": (GOOD + b"data: %b\n\n" % ERROR + DONE, GOOD_),
    "error without newline": (GOOD + b"data: " + ERROR, GOOD_),
    "error event": (GOOD + b"event: error\ndata: %b\n\n" % ERROR, GOOD_),
    "error event without an error object": (b'event:error\r\ndata: {"message":"no"}\r\n\r\n', b""),
    "error event with text": (b"event: error\ndata: overloaded\n\n", b""),
    "error event without data": (GOOD + b"event: error\n\n" + DONE, GOOD_),
    "error next to choices": (GOOD + b"data: %b\n\n" % chunk(more=',"error":{"message":"no"}') + DONE, GOOD_),
    "error as a string": (b'data: {"code":"x","error":"no"}\n\n', b""),
    "error in an array": (b'data: [{"error":{"message":"no"}}]\n\n', b""),
    "not JSON": (GOOD + b"data: <html>\n\n" + DONE, GOOD_),
    "not JSON in several lines": (b"data: <<<\ndata: %b\n\n" % A + DONE, b""),
    "not UTF-8": (b'data: {"model":"up","choices":[],"a":"\xff"}\n\n' + DONE, b""),
    "not an object": (b"data: [1]\n\n" + DONE, b""),
    "too deep": (b"data: " + b"[" * 1900 + b"\n\n" + DONE, b""),
    "a huge event": (GOOD + b"data: %b\n\n" % chunk("x" * 2000) + DONE, GOOD_),
    "an endless line": (GOOD + b": " + b"x" * 2100, GOOD_),
    "an error body": (ERROR, b""),
    "an error body over several lines": (b'\n{\n "error": {\n\n  "message": "up is busy"\n }\n}\n', b""),
    "an error body with a byte order mark": (b"\xef\xbb\xbf" + ERROR, b""),
    "one chunk in place of a stream": (A, frames(A_.replace(b": ", b":"))),
    "an HTML page": (b"<!doctype html>\n<title>x</title>\n\n<p>no</p>\n", b""),
}


ALL = {**WHOLE, **BROKEN}


@pytest.mark.parametrize("name", WHOLE)
def test_a_complete_stream_is_relayed_with_the_slug_and_done(name: str) -> None:
    stream, expected = WHOLE[name]
    result = relay(stream)
    assert result.out == expected
    assert result.failure is None
    assert result.is_done


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_stream_gives_the_events_before_the_fault_and_a_failure(name: str) -> None:
    stream, expected = BROKEN[name]
    result = relay(stream)
    assert result.out == expected
    assert result.failure is not None
    assert not result.is_done


@pytest.mark.parametrize("name", ALL)
def test_single_bytes_give_the_same_result(name: str) -> None:
    stream, _ = ALL[name]
    assert relay(*one_by_one(stream)) == relay(stream)


@sampled(every=4)
@pytest.mark.parametrize("name", ALL)
def test_every_single_cut_gives_the_same_result(name: str) -> None:
    stream, _ = ALL[name]
    whole = relay(stream)
    step = max(1, len(stream) // 150)
    for at in range(0, len(stream), step):
        assert relay(stream[:at], stream[at:]) == whole, f"cut at {at}"


@given(
    st.lists(st.sampled_from([*(s for s, _ in ALL.values()), b"\r", b"\n", b"\r\n"]), max_size=4), st.data()
)
def test_random_cuts_of_random_streams_give_the_same_result(parts: list[bytes], draw: st.DataObject) -> None:
    stream = b"".join(parts)
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert relay(*pieces) == relay(stream)


def test_the_first_event_is_sent_as_soon_as_it_is_complete() -> None:
    reader = reader_of()
    assert reader.feed(b": wait\n\n") == b""
    assert reader.feed(b"data: %b\n" % A) == b""
    assert reader.feed(b"\n") == b": wait\n\ndata: %b\n\n" % A_
    assert reader.feed(b": later\n\n") == b": later\n\n"


def test_comments_before_the_first_event_are_held_up_to_a_bound() -> None:
    comment = b": " + b"x" * 1022 + b"\n\n"
    result = relay(*[comment] * 200, b"data: %b\n\n" % A, DONE)
    kept = MAX_HELD_BYTES // len(comment)
    assert result.out == comment * kept + b"data: %b\n\n" % A_ + DONE


def test_a_provider_error_is_normalized_without_the_upstream_name() -> None:
    for stream in (b"data: %b\n\n" % ERROR, ERROR, b"\xef\xbb\xbf" + ERROR):
        reader = reader_of()
        assert reader.feed(stream) + reader.finish() == b""
        assert reader.failure is not None
        assert reader.failure.message == "model house/slug is busy"
        assert reader.failure.status >= 400


@pytest.mark.parametrize("comma", [b"", b" , "])
def test_chunks_that_come_as_one_array_are_relayed_as_a_stream(comma: bytes) -> None:
    result = relay(b"\n", b"[%b,\r\n%b" % (A, END), b"%b]\n" % comma)
    assert (result.finish_reason, result.is_done, result.failure) == ("stop", True, None)
    assert [json.loads(line[6:])["model"] for line in result.out.split(b"\n\n")[:2]] == [SLUG, SLUG]
    assert result.out.endswith(b"\n\n" + DONE)


def test_a_whole_answer_in_place_of_a_stream_is_relayed_as_one() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": "hi", "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    answer = {"id": "c", "object": "chat.completion", "model": "up", "choices": [choice]}
    result = relay(json.dumps(answer | {"usage": {"completion_tokens": 7}}, indent=2).encode())
    made, done = (line.removeprefix(b"data: ") for line in result.out.split(b"\n\n")[:2])
    chunk = json.loads(made)
    assert (chunk["object"], chunk["model"], done) == ("chat.completion.chunk", SLUG, b"[DONE]")
    delta = message | {"tool_calls": [call | {"index": 0}]}
    assert chunk["choices"] == [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]
    assert result.usage == Usage(completion_tokens=7)
