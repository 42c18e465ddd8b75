"""Bodies and answers of HTTP/1.1: framings, 100 Continue, joined pieces, streams, and clients that do not read."""

import asyncio
import os
from typing import Any

import pytest
from rig.bounds import BOUND_S
from rig.large import sampled
from rig.wire import Wire, echo, wire
from rig.wire_calls import GET, OK, POST, STREAM, HeldCall, wait_until, wait_until_stable

from addon.text.http_heads import Headers, Response
from addon.wire.stream import ClientLeft, Stream
from addon.wire.transport import ClientSocket
from policies.refusal import Refusal


async def test_an_answer_is_one_write(monkeypatch: pytest.MonkeyPatch):
    async with wire() as served, await served.connect() as peer:
        peer.send(GET)
        await peer.answer()
        transport = next(iter(served.host.clients.open.values())).socket
        writes: list[bytes] = []
        monkeypatch.setattr(transport, "write", writes.append)
        peer.send(GET)
        await wait_until(lambda: bool(writes))
        assert len(writes) == 1
        assert writes[0].startswith(b"HTTP/1.1 200 OK\r\n")
        assert writes[0].endswith(b"\r\n\r\n/ ")


@pytest.mark.parametrize("size", [0, 1, 65_536, 300_000])
async def test_bodies_of_all_sizes_and_framings_arrive_whole(kind: dict[str, Any], size: int):
    body = os.urandom(size)
    async with wire(**kind) as served, await served.connect() as peer:
        peer.send(POST + b"Content-Length: %d\r\n\r\n" % size + body)
        assert (await peer.answer()).body == b"/x " + body
        chunks = b"".join(
            b"%x\r\n%b\r\n" % (len(c), c) for i in range(0, size, 7000) if (c := body[i : i + 7000])
        )
        peer.send(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nAuthorization: none\r\n\r\n")
        assert (await peer.answer()).body == b"/x " + body


async def test_an_upgrade_to_h2c_is_ignored_and_its_body_kept():
    head = POST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    async with wire() as served:
        answer = await served.ask(head + b"Content-Length: 4\r\n\r\nbody")
        assert (answer.status, answer.body) == (200, b"/x body")


async def test_an_answer_to_head_has_a_length_and_no_body():
    async with wire() as served, await served.connect() as peer:
        peer.send(b"HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n" + GET)
        answer = await peer.answer("HEAD")
        assert answer.header("content-length") == "3"
        assert (await peer.answer()).body == b"/ "


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_has_no_length(status: int):
    async def serve(stream: Stream) -> None:
        await stream.respond(Response(status, Headers([("etag", '"1"')]), b"no"))

    async with wire(serve) as served, await served.connect() as peer:
        for _ in range(2):
            peer.send(GET)
            answer = await peer.answer()
            assert (answer.status, answer.header("content-length")) == (status, None)
            assert answer.header("etag") == '"1"'


async def test_a_stream_is_chunked_and_its_head_is_sent_with_the_first_piece(kind: dict[str, Any]):
    held = HeldCall(begins=True)
    async with wire(held, **kind) as served, await served.connect() as peer:
        peer.send(GET)
        head = await peer.until(b"first\r\n")
        assert b"transfer-encoding: chunked\r\n" in head
        assert head.endswith(b"\r\n\r\n5\r\nfirst\r\n")
        held.go.set()
        assert await peer.until(b"0\r\n\r\n") == b"4\r\nlast\r\n0\r\n\r\n"
        peer.send(GET)
        assert (await peer.answer()).body == b"firstlast"


async def test_an_empty_piece_sends_the_head_alone():
    async def serve(stream: Stream) -> None:
        stream.begin(STREAM)
        await stream.send(b"")
        await held.until(held.go)
        await stream.send(b"")
        await stream.end()

    held = HeldCall()
    async with wire(serve) as served, await served.connect() as peer:
        peer.send(GET)
        assert (await peer.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        held.go.set()
        assert await peer.until(b"\r\n\r\n") == b"0\r\n\r\n"


async def test_a_stream_to_http_1_0_ends_with_the_connection(kind: dict[str, Any]):
    held = HeldCall(begins=True)
    held.go.set()
    async with wire(held, **kind) as served, await served.connect() as peer:
        peer.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        answer = await peer.answer()
        assert (answer.body, answer.header("connection")) == (b"firstlast", "close")
        assert answer.header("transfer-encoding") is None


async def test_a_streamed_answer_to_head_has_no_body():
    held = HeldCall(begins=True)
    held.go.set()
    async with wire(held) as served, await served.connect() as peer:
        peer.send(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n" + GET)
        assert (await peer.answer("HEAD")).header("transfer-encoding") == "chunked"
        assert (await peer.answer()).body == b"firstlast"


def socket_of(served: Wire) -> ClientSocket:
    """Return the socket of the only client."""
    (one,) = served.host.clients.open.values()
    return one.socket


@sampled(every=2)
async def test_a_client_that_does_not_read_stops_the_stream(kind: dict[str, Any]):
    sent = 0

    async def serve(stream: Stream) -> None:
        nonlocal sent
        stream.begin(STREAM)
        for _ in range(300):
            await stream.send(b"x" * 65_536)
            sent += 1
        await stream.end()

    async with wire(serve, **kind) as served, await served.connect() as peer:
        peer.writer.transport.pause_reading()
        peer.send(GET)
        # The kernel may take some more after a pause, until both of its buffers are full.
        async with asyncio.timeout(BOUND_S):
            while not await wait_until_stable(lambda: sent) or not socket_of(served).has_backlog:
                pass
        stream = socket_of(served)
        assert sent < 200
        assert stream.buffered_bytes < 300_000
        peer.writer.transport.resume_reading()
        assert len((await peer.answer()).body) == 300 * 65_536


HEAD_OF_4 = POST + b"Content-Length: 4\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "then", "is_whole"),
    [
        (HEAD_OF_4, b"body", True),
        (HEAD_OF_4, b"bo", False),
        (HEAD_OF_4 + b"bo", b"dy", True),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"4\r\nbody\r\n0\r\n\r\n", True),
        # These need no wait.
        (HEAD_OF_4 + b"body", b"", True),
        (POST + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\n", b"", False),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nx\r\n", b"", False),
    ],
)
async def test_a_wait_for_a_body_ends_with_more_of_it(head: bytes, then: bytes, is_whole: bool):
    begun, waited = asyncio.Event(), asyncio.Event()
    found: list[bool] = []

    async def serve(stream: Stream) -> None:
        begun.set()
        await stream.wait_for_body(4 * BOUND_S)
        found.append(stream.has_whole_body)
        waited.set()
        await stream.respond(OK)

    async with wire(serve) as served, await served.connect() as peer:
        peer.send(head)
        await asyncio.wait_for(begun.wait(), BOUND_S)
        peer.send(then)
        await asyncio.wait_for(waited.wait(), BOUND_S)
        assert found == [is_whole]


async def test_a_wait_for_a_body_ends_with_its_time_or_its_client():
    left = asyncio.Event()

    async def serve(stream: Stream) -> None:
        await stream.wait_for_body(0)
        assert not stream.has_whole_body
        await stream.wait_for_body(4 * BOUND_S)
        with pytest.raises(ClientLeft):
            await stream.read()
        left.set()

    async with wire(serve) as served, await served.connect() as peer:
        peer.send(HEAD_OF_4)
        peer.writer.write_eof()
        await asyncio.wait_for(left.wait(), BOUND_S)


async def test_a_refused_body_is_read_up_to_what_has_arrived():
    refused: list[str] = []

    async def serve(stream: Stream) -> None:
        late = Refusal("request_timeout", "late")
        if stream.has_whole_body:
            stream.refuse_body(late)
            assert await stream.read() == b"body"
            assert await stream.read() == b""
        else:
            assert await stream.read() == b"bo"
            asyncio.get_running_loop().call_soon(stream.refuse_body, late)
            with pytest.raises(Refusal) as caught:
                await stream.read()
            refused.append(caught.value.code)
        await stream.respond(OK)

    async with wire(serve) as served:
        for body in (b"bo", b"body"):
            assert (await served.ask(HEAD_OF_4 + body, "POST")).body == b"ok"
    assert refused == ["request_timeout"]


async def test_continue_is_sent_when_the_body_is_read():
    held = HeldCall(reads=False)

    async def serve(stream: Stream) -> None:
        held.begun.set()
        await held.until(held.go)
        await echo(stream)

    async with wire(serve) as served, await served.connect() as peer:
        peer.send(POST + b"Expect: 100-Continue\r\nContent-Length: 4\r\n\r\n")
        await held.until(held.begun)
        assert not peer.buffer
        held.go.set()
        assert (await peer.answer()).status == 100
        peer.send(b"body")
        assert (await peer.answer()).body == b"/x body"
        peer.send(GET)
        assert (await peer.answer()).body == b"/ "


@pytest.mark.parametrize(
    "data",
    [
        POST + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\nbody",
        b"POST /x HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody",
        POST + b"Expect: 100-continue\r\nContent-Length: 0\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n",
    ],
)
async def test_no_continue_is_sent_to_a_client_that_does_not_wait_for_it(data: bytes):
    async with wire() as served:
        assert (await served.ask(data)).status == 200


async def test_a_client_that_waits_for_continue_is_refused_and_closed():
    async def serve(stream: Stream) -> None:
        await stream.respond(Response(401, Headers(), b"no"))

    async with wire(serve) as served, await served.connect() as peer:
        peer.send(POST + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        answer = await peer.answer()
        assert (answer.status, answer.header("connection")) == (401, "close")
        assert await peer.rest() == b""


async def test_pieces_of_one_read_are_joined():
    pieces: list[bytes] = []

    async def serve(stream: Stream) -> None:
        while piece := await stream.read():
            pieces.append(piece)
        await stream.respond(OK)

    async with wire(serve) as served:
        chunks = b"1\r\nx\r\n" * 10_000
        assert (
            await served.ask(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
        ).status == 200
        assert b"".join(pieces) == b"x" * 10_000
        assert len(pieces) <= 10
