"""HTTP/1.1 toward clients, inside mitmproxy, on real sockets: requests and answers, one after another and pipelined."""

import asyncio
from typing import Any

import pytest
from rig.bounds import BOUND_S
from rig.wire import echo, wire
from rig.wire_calls import GET, OK, POST, STREAM, HeldCall, wait_until_stable

from addon.text.http_heads import Headers, Response
from addon.wire.http1_stream import Http1Stream
from addon.wire.stream import ClientLeft, Stream

# Whole requests and answers.


async def test_a_whole_request_is_answered_and_the_connection_goes_on(kind: dict[str, Any]):
    async with wire(**kind) as served, await served.connect() as peer:
        for number in range(3):
            peer.send(b"POST /%d HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello" % number)
            answer = await peer.answer()
            assert (answer.status, answer.body) == (200, b"/%d hello" % number)
            assert answer.header("date")
            assert answer.header("connection") is None


async def test_a_head_that_comes_byte_by_byte_is_read():
    async with wire() as served, await served.connect() as peer:
        for byte in GET:
            peer.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await peer.answer()).status == 200


@pytest.mark.parametrize(
    ("head", "closes", "connection"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", True, "close"),
        (b"GET / HTTP/1.0\r\n\r\n", True, "close"),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", False, "keep-alive"),
    ],
)
async def test_the_client_decides_whether_the_connection_stays_open(
    head: bytes, closes: bool, connection: str
):
    async with wire() as served, await served.connect() as peer:
        peer.send(head)
        answer = await peer.answer()
        assert (answer.body, answer.header("connection")) == (b"/ ", connection)
        if closes:
            assert await peer.rest() == b""
        else:
            peer.send(head)
            assert (await peer.answer()).body == b"/ "


async def test_an_answer_can_close_the_connection():
    async def serve(stream: Stream) -> None:
        await stream.respond(Response(413, Headers(), b"big", close=True))

    async with wire(serve) as served, await served.connect() as peer:
        peer.send(POST + b"Content-Length: 900000\r\n\r\n" + b"x" * 200_000)
        answer = await peer.answer()
        assert (answer.status, answer.header("connection"), answer.body) == (413, "close", b"big")
        assert await peer.rest() == b""


async def test_bytes_after_the_last_request_are_ignored():
    async with wire() as served, await served.connect() as peer:
        peer.send(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" + GET + b"\x00junk")
        assert (await peer.answer()).body == b"/ "
        assert await peer.rest() == b""


async def test_a_client_that_never_reads_is_cut_off():
    left = asyncio.Event()

    async def serve(stream: Stream) -> None:
        stream.begin(STREAM)
        try:
            while True:
                await stream.send(b"x" * 65_536)
        except ClientLeft:
            left.set()

    async with wire(serve, write_timeout_s=0.2) as served, await served.connect() as peer:
        peer.writer.transport.pause_reading()
        peer.send(GET)
        await asyncio.wait_for(left.wait(), BOUND_S)
        await served.wait_until_gone()


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 200000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n30d40\r\n"]
)
async def test_the_rest_of_a_body_is_dropped_after_an_early_answer(framing: bytes):
    async def serve(stream: Stream) -> None:
        await stream.respond(Response(401, Headers(), b"no"))

    async with wire(serve) as served, await served.connect() as peer:
        peer.send(POST + framing)
        assert (await peer.answer()).status == 401
        peer.send(b"x" * 200_000 + (b"\r\n0\r\n\r\n" if b"chunked" in framing else b"") + GET)
        assert (await peer.answer()).status == 401


async def test_too_much_of_a_body_is_not_dropped_but_the_connection_closed():
    async def serve(stream: Stream) -> None:
        await stream.respond(Response(401, Headers(), b"no"))

    # Its time is longer than a test waits, and its end is sent: only its bytes close the connection.
    async with wire(serve, max_discard_bytes=100_000, discard_timeout_s=2 * BOUND_S) as served:
        async with await served.connect() as peer:
            peer.send(POST + b"Content-Length: 100001\r\n\r\n")
            assert (await peer.answer()).header("connection") == "close"
            assert await peer.rest() == b""
        async with await served.connect() as peer:
            peer.send(POST + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n")
            assert (await peer.answer()).header("connection") is None
            peer.send(
                b"x" * 0xFFFFF + b"\r\n0\r\n\r\n" + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
            )
            assert await peer.rest() == b""


async def test_dropping_a_body_has_a_time_limit():
    async def serve(stream: Stream) -> None:
        await stream.respond(OK)

    async with wire(serve, discard_timeout_s=0.1) as served, await served.connect() as peer:
        peer.send(POST + b"Content-Length: 4\r\n\r\n")
        assert (await peer.answer()).status == 200
        assert await peer.rest() == b""


async def test_an_unread_body_is_received_only_up_to_a_bound(kind: dict[str, Any]):
    held = HeldCall(reads=False)
    async with wire(held, **kind) as served, await served.connect() as peer:
        peer.send(POST + b"Content-Length: 20000000\r\n\r\n" + b"x" * 20_000_000)
        await held.until(held.begun)
        stream = held.streams[0]
        assert isinstance(stream, Http1Stream)
        assert await wait_until_stable(lambda: stream.unread_bytes) <= 2 * 65_536


# Pipelining.


async def test_pipelined_requests_are_answered_in_order_one_at_a_time():
    running = most = 0

    async def serve(stream: Stream) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        await echo(stream)

    async with wire(serve) as served, await served.connect() as peer:
        peer.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number for number in range(2000)))
        for number in range(2000):
            assert (await peer.answer()).body == b"/%d " % number
        assert most == 1


async def test_pipelined_bytes_are_bounded():
    held = HeldCall()
    async with wire(held) as served, await served.connect() as peer:
        peer.send(GET * 1_000_000)
        await held.until(held.begun)
        waiting = await wait_until_stable(peer.writer.transport.get_write_buffer_size)
        one = next(iter(served.host.clients.open.values()))
        assert waiting > 10_000_000
        assert len(getattr(one.connection, "_buffer").data) <= 2 * 65_536  # noqa: B009


async def test_a_client_that_does_not_read_gets_no_further_answer():
    served_requests = 0

    async def serve(stream: Stream) -> None:
        nonlocal served_requests
        served_requests += 1
        await stream.respond(Response(200, Headers(), b"x" * 1_000_000))

    async with wire(serve) as served, await served.connect() as peer:
        peer.writer.transport.pause_reading()
        peer.send(GET * 100)
        await wait_until_stable(lambda: served_requests)
        assert served_requests < 50
        peer.writer.transport.resume_reading()
        for _ in range(100):
            assert len((await peer.answer()).body) == 1_000_000
