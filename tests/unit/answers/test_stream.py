"""The reader of a stream gives the same result for every way of cutting the stream into pieces."""

import json
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addon.answers.bounds import MAX_CHOICES, MAX_EVENT_VALUES, TOO_MANY_CHOICES
from addon.answers.chunks import ChatChunks
from addon.answers.context import AnswerContext
from addon.answers.stream import MAX_EVENT_BYTES, MAX_EVENT_LINES, MAX_HELD_BYTES, StreamedAnswerReader
from addon.text.errors import ErrorAnswer
from policies.family import Family
from policies.model import Usage

SLUG = "house/slug"
SOURCE = AnswerContext(SLUG, Family("plain"), {"up": SLUG})


@dataclass(frozen=True)
class Result:
    """All that a reader shows at the end of a stream."""

    out: bytes
    usage: Usage | None
    finish_reason: str | None
    text_chars: int
    failure: object
    is_done: bool


def reader_of(max_event_bytes: int = MAX_EVENT_BYTES, source: AnswerContext = SOURCE) -> StreamedAnswerReader:
    return StreamedAnswerReader(ChatChunks(source), source, max_event_bytes)


def relay(*pieces: bytes, max_event_bytes: int = 2000) -> Result:
    reader = reader_of(max_event_bytes)
    out = b"".join([*map(reader.feed, pieces), reader.finish()])
    assert reader.feed(b"data: {}\n\n") + reader.finish() == b"", "nothing follows the end"
    return Result(
        out,
        reader.usage,
        reader.finish_reason,
        reader.relayed_text_chars,
        reader.failure,
        reader.is_done,
    )


def one_by_one(stream: bytes) -> list[bytes]:
    return [stream[i : i + 1] for i in range(len(stream))]


HEAD = '"id":"c1","object":"chat.completion.chunk","created":1'


def chunk(text: str = "hi", *, finish: str | None = None, model: str = "up", more: str = "") -> bytes:
    delta = json.dumps({"content": text}, ensure_ascii=False)
    return (
        f'{{{HEAD},"model":"{model}","choices":[{{"index":0,"delta":{delta},'
        f'"finish_reason":{json.dumps(finish)}}}]{more}}}'
    ).encode()


def named(payload: bytes) -> bytes:
    return payload.replace(b'"model":"up"', b'"model":"house/slug"')


def frames(*payloads: bytes) -> bytes:
    return b"".join(b"data: %b\n\n" % payload for payload in payloads)


A, B, END = chunk("ä€😀"), chunk(" two"), chunk("", finish="stop")
A_, B_, END_ = map(named, (A, B, END))
COUNTS = b'{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5.0e0}'
USAGE = b'{%b,"model":"up","choices":[],"usage":%b}' % (HEAD.encode(), COUNTS)
DONE = b"data: [DONE]\n\n"
SPREAD = A.replace(b",", b",\n").split(b"\n")

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
@settings(max_examples=150, deadline=None)
def test_random_cuts_of_random_streams_give_the_same_result(parts: list[bytes], draw: st.DataObject) -> None:
    stream = b"".join(parts)
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert relay(*pieces) == relay(stream)


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


@pytest.mark.parametrize(
    ("choice", "chars"),
    [
        ({"delta": {"content": "äbc"}}, 3),
        ({"delta": {"content": None, "reasoning_content": "abcd"}}, 4),
        ({"delta": {"reasoning": "ab", "reasoning_details": [{"type": "reasoning.text", "text": "ab"}]}}, 2),
        ({"delta": {"reasoning_details": [{"summary": "abc"}, {"data": "sealed"}]}}, 3 + len('"sealed"')),
        ({"delta": {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "abc"}]}]}}, 3),
        ({"delta": {"content": [{"type": "text", "text": "ab"}, "c"]}}, 3),
        ({"delta": {"tool_calls": [{"function": {"name": "f", "arguments": '{"a'}}]}}, 3),
        ({"delta": {"tool_calls": [{"function": {"arguments": {"a": 1}}}, {"function": None}, 5]}}, 7),
        ({"delta": {"tool_calls": [{"type": "custom", "custom": {"input": "abc"}}]}}, 3),
        ({"delta": {"function_call": {"arguments": "abcde"}, "tool_calls": None}}, 5),
        ({"delta": {"refusal": "no"}}, 2),
        ({"delta": {"role": "assistant", "audio": {"data": "ab"}}}, len('{"data":"ab"}')),
        ({"delta": {"images": [], "annotations": None, "novelty": [1, 2]}}, len("[1,2]")),
        ({"delta": {"content": [{"type": "image_url", "image_url": {"url": "u"}}]}}, len('{"url":"u"}')),
        (
            {"delta": {"tool_calls": [{"id": "a", "function": {"arguments": "b"}, "extra": "c"}]}},
            1 + len('"c"'),
        ),
        ({"text": "abc"}, 3),
        ({"delta": {"content": "ab"}, "message": {"content": "all so far"}}, 2),
        ({"delta": {"content": 5}}, 0),
        ("odd", 0),
    ],
)
def test_relayed_text_is_counted_in_every_member(choice: object, chars: int) -> None:
    chunks = json.dumps({"choices": [choice]}).encode()
    assert relay(b"data: %b\n\n" % chunks, DONE).text_chars == chars


@pytest.mark.parametrize("depth", [500, 5_000, 100_000])
@pytest.mark.parametrize("member", ["content", "reasoning_details", "tool_calls", "function_call"])
def test_no_depth_of_nesting_exhausts_the_stack(member: str, depth: int) -> None:
    for deep in ("[" * depth + "]" * depth, '{"arguments":' * depth + "1" + "}" * depth):
        delta = f'{{"{member}":[{deep}]}}' if member == "tool_calls" else f'{{"{member}":{deep}}}'
        event = b'data: {"choices":[{"delta":%b}]}\n\n' % delta.encode()
        result = relay(event, DONE, max_event_bytes=10_000_000)
        assert result.is_done or result.failure is not None


def test_text_that_was_not_sent_is_not_counted() -> None:
    assert relay(b"data: %b\n\ndata: %b\n\n" % (A, chunk("x", more=',"error":"no"'))).text_chars == 3


def test_a_provider_error_is_normalized_without_the_upstream_name() -> None:
    for stream in (b"data: %b\n\n" % ERROR, ERROR, b"\xef\xbb\xbf" + ERROR):
        reader = reader_of()
        assert reader.feed(stream) + reader.finish() == b""
        assert reader.failure is not None
        assert reader.failure.message == "model house/slug is busy"
        assert reader.failure.status >= 400


def test_a_slug_is_written_as_JSON() -> None:
    reader = reader_of(source=AnswerContext('o"d\\d/sl\u00fcg', Family("plain")))
    out = reader.feed(b"data: %b\n\n" % A)
    assert json.loads(out.removeprefix(b"data: "))["model"] == 'o"d\\d/sl\u00fcg'


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
