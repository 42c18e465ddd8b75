"""Bodies of HTTP/1.1 messages: any cut of their bytes gives the same result, and framing is bounded."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig.malformed_http1 import BAD_CHUNKS

from addon.text.http1_body import MAX_OVERHEAD_BYTES, BodyReader
from addon.text.http1_heads import (
    LAST_CHUNK,
    Framing,
    HttpSyntaxError,
    encode_chunk,
)

CHUNKED = Framing(None, is_chunked=True)
UNTIL_CLOSE = Framing(None, until_close=True)


def read_body(
    framing: Framing, pieces: list[bytes], *, closed: bool = False
) -> tuple[bytes, bool, bytes] | str:
    """Read ``pieces``; return the body, whether it ended, and the rest, or ``error``."""
    reader = BodyReader(framing)
    try:
        body = b"".join([reader.feed(piece) for piece in pieces])
        if closed:
            reader.end()
    except HttpSyntaxError:
        return "error"
    return body, reader.is_done, reader.rest


BODIES = {
    "length": (Framing(5), b"hello", (b"hello", True, b"")),
    "length, and more": (Framing(5), b"helloGET", (b"hello", True, b"GET")),
    "length, cut": (Framing(5), b"hell", (b"hell", False, b"")),
    "no body": (Framing(0), b"GET", (b"", True, b"GET")),
    "until close": (UNTIL_CLOSE, b"hello", (b"hello", False, b"")),
    "chunks": (CHUNKED, b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", (b"hello!", True, b"")),
    "chunks, and more": (CHUNKED, b"5\r\nhello\r\n0\r\n\r\nGET /\r\n", (b"hello", True, b"GET /\r\n")),
    "chunk of line ends": (CHUNKED, b"6\r\n\r\n0\r\n\r\r\n0\r\n\r\n", (b"\r\n0\r\n\r", True, b"")),
    "16 digits": (CHUNKED, b"000000000000000A\r\n0123456789\r\n000\r\n\r\n", (b"0123456789", True, b"")),
    "largest size": (CHUNKED, b"FFFFFFFFFFFFFFFF\r\nabc", (b"abc", False, b"")),
    "extensions": (CHUNKED, b'1;a;b=c;d="e; \\"f"\r\nx\r\n0;g\r\n\r\n', (b"x", True, b"")),
    "trailers": (CHUNKED, b"1\r\nx\r\n0\r\nA: b\r\nc:\r\n\r\nrest", (b"x", True, b"rest")),
    "cut in a size": (CHUNKED, b"1\r\nx\r\n1", (b"x", False, b"")),
    "cut behind the last chunk": (CHUNKED, b"1\r\nx\r\n0\r\n", (b"x", False, b"")),
    "only the last chunk": (CHUNKED, b"0\r\n\r\n", (b"", True, b"")),
}


@pytest.mark.parametrize(("framing", "raw", "read"), BODIES.values(), ids=BODIES)
def test_any_cut_of_a_body_gives_the_same_result(framing: Framing, raw: bytes, read):
    assert read_body(framing, [raw]) == read
    assert read_body(framing, [raw[at : at + 1] for at in range(len(raw))]) == read
    for at in range(len(raw)):
        assert read_body(framing, [raw[:at], raw[at:]]) == read


SHORT_BAD_CHUNKS = {name: raw for name, raw in BAD_CHUNKS.items() if len(raw) < 100}


@pytest.mark.parametrize("raw", SHORT_BAD_CHUNKS.values(), ids=SHORT_BAD_CHUNKS)
def test_any_cut_of_broken_chunks_is_refused(raw: bytes):
    assert read_body(CHUNKED, [raw]) == "error"
    assert read_body(CHUNKED, [raw[at : at + 1] for at in range(len(raw))]) == "error"
    for at in range(len(raw)):
        assert read_body(CHUNKED, [raw[:at], raw[at:]]) == "error"


def test_an_early_end_is_an_error_unless_the_close_ends_the_body():
    assert read_body(UNTIL_CLOSE, [b"ab", b"c"], closed=True) == (b"abc", True, b"")
    assert read_body(Framing(0), [], closed=True) == (b"", True, b"")
    assert read_body(Framing(2), [b"ab"], closed=True) == (b"ab", True, b"")
    assert read_body(Framing(3), [b"ab"], closed=True) == "error"
    assert read_body(CHUNKED, [b"1\r\na\r\n0\r\n"], closed=True) == "error"
    assert read_body(CHUNKED, [b"1\r\na\r\n0\r\n\r\n"], closed=True) == (b"a", True, b"")


def test_a_broken_body_stays_broken():
    reader = BodyReader(CHUNKED)
    for piece in (b"zz\r\n", b"0\r\n\r\n"):
        with pytest.raises(HttpSyntaxError):
            reader.feed(piece)
    with pytest.raises(HttpSyntaxError):
        reader.end()
    assert not reader.is_done


@pytest.mark.parametrize("broken", [b"zz\r\n", b"2\r\nabc\r\n", b"0\r\n:\r\n\r\n"])
def test_the_bytes_before_broken_chunks_are_kept(broken: bytes):
    raw = b"3\r\nold\r\n" + broken
    for at in range(len(raw)):
        reader, read = BodyReader(CHUNKED), b""
        with suppress(HttpSyntaxError):
            for piece in (raw[:at], raw[at:]):
                read += reader.feed(piece)
        assert (read + reader.before_fault).startswith(b"old")


ENDLESS = {
    "zeros of a size": (b"", b"0", 17),
    "an extension": (b"1;", b"a", MAX_OVERHEAD_BYTES + 20),
    "a quoted extension": (b'1;a="', b"a", MAX_OVERHEAD_BYTES + 20),
    "chunks with extensions": (b"", b"1;a=bc\r\nx\r\n", MAX_OVERHEAD_BYTES // 5 * 11 + 11),
    "one trailer": (b"0\r\na:", b"b", MAX_OVERHEAD_BYTES + 20),
    "the name of a trailer": (b"0\r\n", b"a", MAX_OVERHEAD_BYTES + 20),
    "trailers": (b"0\r\n", b"a: b\r\n", MAX_OVERHEAD_BYTES + 20),
}


@pytest.mark.parametrize("step", [1, 7, 65_536])
@pytest.mark.parametrize(("begun", "repeated", "bound"), ENDLESS.values(), ids=ENDLESS)
def test_endless_framing_is_refused_soon(begun: bytes, repeated: bytes, bound: int, step: int):
    reader = BodyReader(CHUNKED)
    reader.feed(begun)
    raw = repeated * (100_000 // len(repeated))
    for start in range(0, len(raw), step):
        try:
            reader.feed(raw[start : start + step])
        except HttpSyntaxError:
            assert start <= bound
            return
    pytest.fail("all of it was read")


def test_plain_sizes_are_not_overhead():
    chunk = b"0000000000000001\r\nx\r\n"
    assert read_body(CHUNKED, [chunk * 5000, LAST_CHUNK]) == (b"x" * 5000, True, b"")


def test_bytes_within_one_body_or_chunk_are_passed_on_uncopied():
    data = b"x" * 65_536
    for framing, begun in ((Framing(2**62), b"x"), (CHUNKED, b"ffffffff\r\n"), (UNTIL_CLOSE, b"x")):
        reader = BodyReader(framing)
        reader.feed(begun)
        assert reader.feed(data) is data


def split(raw: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(raw) + 1) for place in places), len(raw)]
    return [raw[start:stop] for start, stop in pairwise(bounds)]


PLACES = st.lists(st.integers(0, 10_000), max_size=12)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=8), PLACES, st.binary(max_size=10))
def test_chunks_are_read_back(pieces: list[bytes], places: list[int], rest: bytes):
    raw = b"".join(encode_chunk(piece) for piece in pieces) + LAST_CHUNK + rest
    assert read_body(CHUNKED, split(raw, places)) == (b"".join(pieces), True, rest)


CHUNK_BYTES = st.lists(
    st.one_of(
        st.sampled_from([b"\r\n", b"0", b"1", b"a", b";", b"=", b'"', b"\r", b"\n", b":", b"0\r\n", b"1\r\nx\r\n"]),
        st.binary(max_size=3),
    ),
    max_size=30,
).map(b"".join)  # fmt: skip


CHUNKS = [
    *(encode_chunk(piece) for piece in (b"x", b"\r", b"\n", b"y" * 300)),
    *(b"0a\r\n\r\n34567890\r\n", b"1;a\r\nx\r\n", b"2\r\nx\r\n\r\n", b"1\r\nxy\r\n"),
]


MANY_CHUNKS = st.lists(st.tuples(st.sampled_from(CHUNKS), st.integers(1, 400)), max_size=5).map(
    lambda runs: b"".join(one * count for one, count in runs)
)


@settings(deadline=None, max_examples=40)
@given(MANY_CHUNKS, st.sampled_from([b"", LAST_CHUNK, LAST_CHUNK + b"rest", b"1"]), st.integers(1, 5000))
def test_long_runs_of_chunks_give_the_same_result_byte_by_byte(chunks: bytes, end: bytes, step: int):
    raw = chunks + end
    read = read_body(CHUNKED, [raw[at : at + 1] for at in range(len(raw))])
    assert read_body(CHUNKED, [raw]) == read
    assert read_body(CHUNKED, [raw[at : at + step] for at in range(0, len(raw), step)]) == read


@given(CHUNK_BYTES, PLACES)
def test_any_cut_of_any_bytes_gives_the_same_result(raw: bytes, places: list[int]):
    assert read_body(CHUNKED, split(raw, places)) == read_body(CHUNKED, [raw])
