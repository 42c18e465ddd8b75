"""Frames of Amazon's event stream are cut, checked and read, however the stream is cut into pieces.

The vectors are those with which Amazon's own libraries test their readers. Source: boto/botocore,
tests/unit/test_eventstream.py (Apache-2.0).
"""

import binascii
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.native_converse_stream import encode_frame, event_frame

from addon.answers.context import AnswerContext
from addon.answers.silence import MAX_SILENT_BYTES
from addon.dialects.bedrock import dialect, event_stream
from addon.dialects.bedrock.event_stream import MAX_FRAME_BYTES, FrameError, FrameSplitter
from policies.family import Family

CONTEXT = AnswerContext("slug", Family("any"), created_s=1)

# case: frame, headers with a text, payload
READ = {
    "an empty message": (b"\x00\x00\x00\x10\x00\x00\x00\x00\x05\xc2H\xeb}\x98\xc8\xff", {}, b""),
    "a byte": (b"\x00\x00\x00\x17\x00\x00\x00\x07)\x86\x01X\x04byte\x02\xff\xc2\xf8i\xdc", {}, b""),
    "a short": (b"\x00\x00\x00\x19\x00\x00\x00\tq\x0e\x92>\x05short\x03\xff\xff\xb2|\xb6\xcc", {}, b""),
    "an integer": (
        b"\x00\x00\x00\x1d\x00\x00\x00\r\x83\xe3\xf0\xe7\x07integer\x04\xff\xff\xff\xff\x8b\x8e\x12\xeb",
        {},
        b"",
    ),
    "a long": (
        b"\x00\x00\x00\x1e\x00\x00\x00\x0e]J\xdb\x8d\x04long\x05\xff\xff\xff\xff\xff\xff\xff\xffK\xc22\xda",
        {},
        b"",
    ),
    "a payload without headers": (
        b"\x00\x00\x00\x1d\x00\x00\x00\x00\xfdR\x8cZ{'foo':'bar'}\xc3e96",
        {},
        b"{'foo':'bar'}",
    ),
    "a text": (
        b"\x00\x00\x00=\x00\x00\x00 \x07\xfd\x83\x96\x0ccontent-type\x07\x00\x10"
        b"application/json{'foo':'bar'}\x8d\x9c\x08\xb1",
        {"content-type": "application/json"},
        b"{'foo':'bar'}",
    ),
    "all types": (
        b"\x00\x00\x00\x62\x00\x00\x00\x52\x03\xb5\xcb\x9c"
        b"\x010\x00\x011\x01\x012\x02\x02\x013\x03\x00\x03"
        b"\x014\x04\x00\x00\x00\x04\x015\x05\x00\x00\x00\x00\x00\x00\x00\x05"
        b"\x016\x06\x00\x05bytes\x017\x07\x00\x04utf8"
        b"\x018\x08\x00\x00\x00\x00\x00\x00\x00\x08\x019\x090123456789abcdef"
        b"\x63\x35\x36\x71",
        {"7": "utf8"},
        b"",
    ),
    "an error": (
        b"\x00\x00\x00\x52\x00\x00\x00\x42\xbf\x23\x63\x7e"
        b"\x0d:message-type\x07\x00\x05error\x0b:error-code\x07\x00\x04code"
        b"\x0e:error-message\x07\x00\x07message\x6b\x6c\xea\x3d",
        {":message-type": "error", ":error-code": "code", ":error-message": "message"},
        b"",
    ),
}
# case: frame, a word of the failure
REFUSED = {
    "a changed length of the headers": (
        b"\x00\x00\x00=\xff\x00\x01\x02\x07\xfd\x83\x96\x0ccontent-type\x07\x00"
        b"\x10application/json{'foo':'bar'}\x8d\x9c\x08\xb1",
        "damaged",
    ),
    "a changed header": (
        b"\x00\x00\x00=\x00\x00\x00 \x07\xfd\x83\x96\x0ccontent+type\x07\x00\x10"
        b"application/json{'foo':'bar'}\x8d\x9c\x08\xb1",
        "damaged",
    ),
    "a changed length": (b"\x01\x00\x00\x1d\x00\x00\x00\x00\xfdR\x8cZ{'foo':'bar'}\xc3e96", "damaged"),
    "a changed payload": (
        b"\x00\x00\x00\x1d\x00\x00\x00\x00\xfdR\x8cZ{'foo':'bar'\x8d\xc3e96",
        "damaged",
    ),
    "a header twice": (
        b"\x00\x00\x00\x24\x00\x00\x00\x14\x4b\xb9\x82\xd0\x04test\x04asdf\x04test\x04asdf\xf3\xf4\x75\x63",
        "malformed",
    ),
    "headers longer than any": (
        b"\x00\x00\x00\x3d\xff\x00\x01\x02\x15\x83\xf5\xc2\x0ccontent-type\x07\x00\x10application/json"
        b"{'foo':'bar'}\x2f\x37\x7f\x5d",
        "too large",
    ),
}


def framed(length: int, headers: bytes, payload: bytes = b"") -> bytes:
    """Return a frame with right checksums that says this of its length."""
    start = struct.pack(">II", length, len(headers))
    made = start + struct.pack(">I", binascii.crc32(start)) + headers + payload
    return made + struct.pack(">I", binascii.crc32(made))


def right(headers: bytes) -> bytes:
    return framed(16 + len(headers), headers)


# Frames with right checksums whose headers end too early, or make no sense.
WRONG_HEADERS = {
    "a name that is cut": b"\x09name",
    "a name without a type": b"\x04name",
    "a type of tomorrow": b"\x04name\x0a",
    "a value that is cut": b"\x04name\x04\x00",
    "a length that is cut": b"\x04name\x07\x00",
    "a text that is cut": b"\x04name\x07\x00\x09text",
    "a text that is not UTF-8": b"\x04name\x07\x00\x01\xff",
    "a name that is not UTF-8": b"\x01\xff\x00",
    "an empty name": b"\x00\x00",
}


def frames_in(splitter: FrameSplitter) -> list[tuple[dict[str, str], bytes]]:
    return list(iter(splitter.take, None))


@pytest.mark.parametrize(("frame", "headers", "payload"), READ.values(), ids=READ)
def test_a_frame_is_read_byte_by_byte(frame: bytes, headers: dict[str, str], payload: bytes) -> None:
    splitter = FrameSplitter()
    for byte in frame[:-1]:
        splitter.add(bytes([byte]))
        assert splitter.take() is None
    splitter.add(frame[-1:])
    assert frames_in(splitter) == [(headers, payload)]


@pytest.mark.parametrize(("frame", "said"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_frame_is_refused(frame: bytes, said: str) -> None:
    splitter = FrameSplitter()
    splitter.add(frame)
    with pytest.raises(FrameError) as caught:
        frames_in(splitter)
    assert said in caught.value.failure.message


@pytest.mark.parametrize("headers", WRONG_HEADERS.values(), ids=WRONG_HEADERS)
def test_headers_that_make_no_sense_are_refused(headers: bytes) -> None:
    splitter = FrameSplitter()
    splitter.add(right(headers))
    with pytest.raises(FrameError, match="malformed"):
        frames_in(splitter)


@pytest.mark.parametrize("length", [0, 15, MAX_FRAME_BYTES + 1, 2**32 - 1])
def test_a_length_out_of_bounds_is_refused_before_the_frame_is_there(length: int) -> None:
    splitter = FrameSplitter()
    splitter.add(framed(length, b"")[:12])
    with pytest.raises(FrameError):
        splitter.take()


def test_headers_may_not_be_longer_than_their_frame() -> None:
    splitter = FrameSplitter()
    splitter.add(framed(17, b"\x01a\x00"))
    with pytest.raises(FrameError, match="malformed"):
        splitter.take()


def test_a_stream_gives_the_same_answer_for_each_place_where_it_is_cut() -> None:
    events = [
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "grüße"}, "p": "abc"}),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}}),
    ]
    stream = b"".join(event_frame(name, payload) for name, payload in events)

    def read(*pieces: bytes) -> bytes:
        reader = dialect.stream(CONTEXT)
        shown = b"".join([*map(reader.feed, pieces), reader.finish()])
        assert reader.failure is None and reader.is_done
        return shown

    expected = read(stream)
    assert "grüße".encode() in expected or rb"gr\u00fc\u00dfe" in expected
    assert read(*[bytes([byte]) for byte in stream]) == expected
    for at in range(len(stream)):
        assert read(stream[:at], stream[at:]) == expected


def test_a_damaged_frame_ends_the_answer_and_what_came_before_is_shown() -> None:
    good = event_frame("messageStart", {"role": "assistant"})
    bad = bytearray(event_frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "a"}}))
    bad[-1] ^= 1
    reader = dialect.stream(CONTEXT)
    shown = reader.feed(good + bytes(bad))
    assert b'"role":"assistant"' in shown
    assert reader.failure is not None
    assert "damaged" in reader.failure.message
    assert reader.feed(good) + reader.finish() == b""


@pytest.mark.parametrize("text", [b"data: {}\n\n", b'{"message":"no stream at all"}', b"\0" * 64])
def test_anything_but_an_event_stream_is_a_failure(text: bytes) -> None:
    reader = dialect.stream(CONTEXT)
    assert reader.feed(text) + reader.finish() == b""
    assert reader.failure is not None


@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_a_json_error_in_place_of_a_stream_gives_its_message(step: int) -> None:
    text = b'{"message": "The model is not\\nready.", "__type": "ModelNotReadyException"}\n'
    reader = dialect.stream(CONTEXT)
    shown = b"".join([reader.feed(text[at : at + step]) for at in range(0, len(text), step)])
    assert shown + reader.finish() == b""
    assert reader.failure is not None
    assert (reader.failure.status, reader.failure.message) == (502, "The model is not ready.")


def test_frames_without_content_end_the_stream_by_their_own_size() -> None:
    reader, frame = dialect.stream(CONTEXT), event_frame("unknown", {})
    reader.feed(event_frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "a"}}))
    fed = 0
    while reader.failure is None:
        reader.feed(frame * 50)
        fed += 50 * len(frame)
        assert fed <= MAX_SILENT_BYTES + 50 * len(frame)
    assert fed > MAX_SILENT_BYTES
    assert "without content" in reader.failure.message


def test_headers_that_come_again_are_not_read_again() -> None:
    splitter, frame = FrameSplitter(), event_frame("contentBlockStop", {"contentBlockIndex": 0})
    splitter.add(frame)
    expected = splitter.take()
    looks = event_stream._read_short_headers.cache_info().misses
    splitter.add(frame * 100)
    assert frames_in(splitter) == [expected] * 100
    assert event_stream._read_short_headers.cache_info().misses == looks


def test_a_line_end_in_a_payload_makes_no_second_event() -> None:
    payload = b'{"contentBlockIndex":0,\r\n\r\ndata: [DONE]\n\n"delta":{}}'
    headers = {":message-type": "event", ":event-type": "contentBlockDelta"}
    reader = dialect.stream(CONTEXT)
    reader.feed(event_frame("messageStart", {"role": "assistant"}))
    assert b"[DONE]" not in reader.feed(encode_frame(headers, payload)) + reader.finish()
    assert reader.failure is not None


def test_an_error_frame_is_an_error_of_the_provider() -> None:
    frame, _, _ = READ["an error"]
    reader = dialect.stream(CONTEXT)
    reader.feed(event_frame("messageStart", {"role": "assistant"}) + frame)
    assert reader.failure is not None
    assert reader.failure.message == "message"


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_are_read_or_refused(text: bytes, at: int) -> None:
    reader = dialect.stream(CONTEXT)
    reader.feed(text[:at])
    reader.feed(text[at:])
    reader.finish()
    assert reader.failure is not None
