"""The cuts of an answer into pieces make no difference to a connection."""

import asyncio
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from addon.runtime.read_buffer import new_read_buffer
from addon.upstream.connection import SLICE_BYTES, UpstreamConnection
from addon.upstream.connection_error import UpstreamConnectionError
from addon.upstream.origin import Origin
from addon.upstream.provider_socket import ProviderSocket

INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
COUNTED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nA: b\r\n\r\n"


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(marks)]


async def take(pieces: list[bytes]) -> tuple[int | None, bytes, str, bool]:
    """Return status, body, error, and whether the connection is kept."""
    kept: list[bool] = []
    link = ProviderSocket(lambda _: None, new_read_buffer(), Origin("http", "h", 80))
    connection = UpstreamConnection(link, lambda _, is_clean: kept.append(is_clean), is_reused=False)
    connection.send(b"POST / HTTP/1.1\r\n\r\n", b"")
    for piece in pieces:
        link.data_received(piece)
    status, body, broke = None, b"", ""
    try:
        async with asyncio.timeout(0):  # No further bytes arrive.
            status = (await connection.head()).status
            while piece := await connection.read():
                body += piece
    except TimeoutError:
        broke = "unfinished"
    except UpstreamConnectionError as error:
        broke = "garbage" if error.is_malformed else "broke"
    connection.release()
    return status, body, broke, kept[0]


@given(
    st.integers(0, 16),
    st.sampled_from([COUNTED, CHUNKED]),
    st.binary(max_size=40),
    st.lists(st.integers(0, 999)),
)
def test_the_cuts_of_an_answer_make_no_difference(
    interim: int, answer: bytes, junk: bytes, places: list[int]
) -> None:
    pieces = cut(INTERIM * interim + answer + junk, places)
    assert asyncio.run(take(pieces)) == (200, b"hello", "", not junk)


@given(st.sampled_from([COUNTED, CHUNKED]), st.integers(0, 999), st.lists(st.integers(0, 999)))
def test_an_answer_that_is_cut_short_is_never_whole(answer: bytes, end: int, places: list[int]) -> None:
    _, body, broke, is_kept = asyncio.run(take(cut(answer[: end % len(answer)], places)))
    assert b"hello".startswith(body)
    assert (broke, is_kept) == ("unfinished", False)


@given(
    st.lists(
        st.sampled_from(
            [b"HTTP/1.1 200 OK\r\n", b"Content-Length: 5\r\n", b"\r\n", b"hello", b"0\r\n", b"\0"]
        )
    )
    | st.lists(st.binary(max_size=30))
)
def test_any_bytes_are_an_answer_or_malformed_or_incomplete(pieces: list[bytes]) -> None:
    status, _, broke, is_kept = asyncio.run(take([piece for piece in pieces if piece]))
    assert status is not None or broke
    assert not (is_kept and broke)


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def open_connection() -> UpstreamConnection:
    link = ProviderSocket(lambda _: None, new_read_buffer(), Origin("http", "h", 80))
    connection = UpstreamConnection(link, lambda _, is_clean: None, is_reused=False)
    connection.send(b"POST / HTTP/1.1\r\n\r\n", b"")
    return connection


async def test_a_large_read_is_passed_on_in_slices_one_in_each_turn() -> None:
    connection, passed, turns = open_connection(), list[bytes](), list[int]()
    connection.data_received(HEAD)
    large = bytes(range(256)) * 200

    def note_turn() -> None:
        turns.append(len(b"".join(passed)))
        if turns[-1] < len(large):
            asyncio.get_running_loop().call_soon(note_turn)

    def pass_on(piece: bytes) -> bool:
        passed.append(piece)
        return True

    waiter = connection.next_input(pass_on)
    connection.data_received(b"%x\r\n%b\r\n" % (len(large), large))
    note_turn()
    while len(b"".join(passed)) < len(large):
        assert await waiter
        passed.append(connection.take(SLICE_BYTES) or b"")
        waiter = connection.next_input(pass_on)
    assert b"".join(passed) == large
    assert max(map(len, passed)) == SLICE_BYTES
    # In each turn of the loop, at most one slice was passed on.
    assert max(after - before for before, after in pairwise(turns)) <= SLICE_BYTES
    connection.data_received(b"2\r\nok\r\n")
    assert passed[-1] == b"ok"


async def test_a_call_is_woken_once_however_many_pieces_came_in_a_turn() -> None:
    connection, wakes = open_connection(), 0
    connection.data_received(HEAD)

    async def read() -> bytes:
        nonlocal wakes
        body = b""
        while len(body) < 300:
            assert await connection.next_input()
            wakes += 1
            body += connection.take() or b""
        return body

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    for number in range(100):
        connection.data_received(b"3\r\n%03d\r\n" % number)
    assert await reading == b"".join([b"%03d" % number for number in range(100)])
    assert wakes == 1


async def test_many_chunks_of_one_read_are_passed_on_as_one_piece() -> None:
    connection, passed = open_connection(), list[bytes]()
    connection.data_received(HEAD)
    connection.next_input(lambda piece: passed.append(piece) is None)
    connection.data_received(b"1\r\nx\r\n" * 5_000)
    assert passed == [b"x" * 5_000]


async def test_a_piece_of_just_the_most_bytes_is_followed_by_a_wait() -> None:
    connection = open_connection()
    connection._socket.data_received(HEAD + b"5\r\nhello\r\n")
    assert connection.take(5) == b"hello"
    assert not connection.has_unread
    assert connection.take(5) is None  # An empty piece would be the end of the body.
