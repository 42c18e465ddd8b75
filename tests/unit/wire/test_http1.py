"""HTTP/1.1 toward clients, inside mitmproxy, on real sockets."""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from rig.bounds import BOUND_S
from rig.wire import Peer, echo, wire

from addon.text.http_heads import Headers, Response, ResponseHead
from addon.wire.http1_stream import Http1Stream
from addon.wire.http2_frames import PREFACE
from addon.wire.stream import ClientLeft, Stream
from policies.refusal import Refusal

POST = b"POST /x HTTP/1.1\r\nHost: h\r\n"
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
STREAM = ResponseHead(200, Headers([("content-type", "text/event-stream")]))
OK = Response(200, Headers(), b"ok")


@pytest.fixture
def certificate(authority: trustme.CA, tmp_path: Path) -> Path:
    pem = tmp_path / "server.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(pem))
    return pem


@pytest.fixture(params=["plain", "tls"])
def kind(request: pytest.FixtureRequest, certificate: Path, trusting: ssl.SSLContext) -> dict[str, Any]:
    """The wire's arguments for a port without and with TLS."""
    return {} if request.param == "plain" else {"certificate": certificate, "tls": trusting}


class Held:
    """A coroutine for streams that waits for the test, and whose end the test awaits."""

    def __init__(self, *, begins: bool = False, reads: bool = True) -> None:
        self.begins = begins
        self.reads = reads
        self.go = asyncio.Event()
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.left = 0
        self.streams: list[Stream] = []

    async def __call__(self, stream: Stream) -> None:
        self.streams.append(stream)
        try:
            while self.reads and await stream.read():
                pass
            if self.begins:
                stream.begin(STREAM)
                await stream.send(b"first")
            self.begun.set()
            with stream.while_connected():
                await self.go.wait()
            if self.begins:
                await stream.end(b"last")
            else:
                await stream.respond(OK)
        except ClientLeft:
            self.left += 1
            # The rest of a call goes on after its client left.
            await asyncio.sleep(0)
        finally:
            self.ended.set()

    async def until(self, event: asyncio.Event) -> None:
        await asyncio.wait_for(event.wait(), BOUND_S)


async def eventually(is_so: Callable[[], bool]) -> None:
    """Wait until ``is_so``."""
    async with asyncio.timeout(BOUND_S):
        while not is_so():  # noqa: ASYNC110  (what is waited for sets no event)
            await asyncio.sleep(0.005)


async def settled(measure: Callable[[], int]) -> int:
    """Wait until ``measure`` no longer changes. Return its value."""
    before, now = -1, measure()
    while now != before:
        await asyncio.sleep(0.05)
        before, now = now, measure()
    return now


# Whole requests and answers.


async def test_a_whole_request_is_answered_and_the_connection_goes_on(kind: dict[str, Any]):
    async with wire(**kind) as served, await served.connect() as peer:
        for number in range(3):
            peer.send(b"POST /%d HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello" % number)
            answer = await peer.answer()
            assert (answer.status, answer.body) == (200, b"/%d hello" % number)
            assert answer.header("date")
            assert answer.header("connection") is None


async def test_an_answer_is_one_write(monkeypatch: pytest.MonkeyPatch):
    async with wire() as served, await served.connect() as peer:
        peer.send(GET)
        await peer.answer()
        transport = next(iter(served.host.clients.open.values())).socket
        writes: list[bytes] = []
        monkeypatch.setattr(transport, "write", writes.append)
        peer.send(GET)
        await eventually(lambda: bool(writes))
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


async def test_a_head_that_comes_byte_by_byte_is_read():
    async with wire() as served, await served.connect() as peer:
        for byte in GET:
            peer.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await peer.answer()).status == 200


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


# Streams.


async def test_a_stream_is_chunked_and_its_head_is_sent_with_the_first_piece(kind: dict[str, Any]):
    held = Held(begins=True)
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

    held = Held()
    async with wire(serve) as served, await served.connect() as peer:
        peer.send(GET)
        assert (await peer.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        held.go.set()
        assert await peer.until(b"\r\n\r\n") == b"0\r\n\r\n"


async def test_a_stream_to_http_1_0_ends_with_the_connection(kind: dict[str, Any]):
    held = Held(begins=True)
    held.go.set()
    async with wire(held, **kind) as served, await served.connect() as peer:
        peer.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        answer = await peer.answer()
        assert (answer.body, answer.header("connection")) == (b"firstlast", "close")
        assert answer.header("transfer-encoding") is None


async def test_a_streamed_answer_to_head_has_no_body():
    held = Held(begins=True)
    held.go.set()
    async with wire(held) as served, await served.connect() as peer:
        peer.send(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n" + GET)
        assert (await peer.answer("HEAD")).header("transfer-encoding") == "chunked"
        assert (await peer.answer()).body == b"firstlast"


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
        async with asyncio.timeout(BOUND_S):
            while not await settled(lambda: sent):
                pass
        stream = next(iter(served.host.clients.open.values())).socket
        assert sent < 200
        assert stream.has_backlog
        assert stream.buffered_bytes < 300_000
        peer.writer.transport.resume_reading()
        assert len((await peer.answer()).body) == 300 * 65_536


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


async def test_a_stream_outlives_the_watchdog_of_mitmproxy():
    async def serve(stream: Stream) -> None:
        stream.begin(STREAM)
        await stream.send(b"first")
        await asyncio.sleep(2.2)
        await stream.end(b"last")

    async with wire(serve, tcp_timeout=1) as served:
        assert (await served.ask(GET)).body == b"firstlast"


# Bodies that are not read, or read late.


async def test_continue_is_sent_when_the_body_is_read():
    held = Held(reads=False)

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

    async with wire(serve, max_discard_bytes=100_000) as served:
        async with await served.connect() as peer:
            peer.send(POST + b"Content-Length: 100001\r\n\r\n")
            assert (await peer.answer()).header("connection") == "close"
            assert await peer.rest() == b""
        async with await served.connect() as peer:
            peer.send(POST + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n")
            assert (await peer.answer()).header("connection") is None
            peer.send(b"x" * 100_001)
            assert await peer.rest() == b""


async def test_dropping_a_body_has_a_time_limit():
    async def serve(stream: Stream) -> None:
        await stream.respond(OK)

    async with wire(serve, discard_timeout_s=0.1) as served, await served.connect() as peer:
        peer.send(POST + b"Content-Length: 4\r\n\r\n")
        assert (await peer.answer()).status == 200
        assert await peer.rest() == b""


async def test_an_unread_body_is_received_only_up_to_a_bound(kind: dict[str, Any]):
    held = Held(reads=False)
    async with wire(held, **kind) as served, await served.connect() as peer:
        peer.send(POST + b"Content-Length: 20000000\r\n\r\n" + b"x" * 20_000_000)
        await held.until(held.begun)
        stream = held.streams[0]
        assert isinstance(stream, Http1Stream)
        assert await settled(lambda: stream.unread_bytes) <= 2 * 65_536


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
    held = Held()
    async with wire(held) as served, await served.connect() as peer:
        peer.send(GET * 1_000_000)
        await held.until(held.begun)
        waiting = await settled(peer.writer.transport.get_write_buffer_size)
        one = next(iter(served.host.clients.open.values()))
        assert waiting > 10_000_000
        assert len(getattr(one.connection, "_buffer")) <= 2 * 65_536  # noqa: B009


async def test_a_client_that_does_not_read_gets_no_further_answer():
    served_requests = 0

    async def serve(stream: Stream) -> None:
        nonlocal served_requests
        served_requests += 1
        await stream.respond(Response(200, Headers(), b"x" * 1_000_000))

    async with wire(serve) as served, await served.connect() as peer:
        peer.writer.transport.pause_reading()
        peer.send(GET * 100)
        await settled(lambda: served_requests)
        assert served_requests < 50
        peer.writer.transport.resume_reading()
        for _ in range(100):
            assert len((await peer.answer()).body) == 1_000_000


# Refused requests.


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: h\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\n folded: x\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (POST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400),
        (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Content-Length: 18446744073709551615\r\n\r\n", 413),
        (POST + b"X: " + b"x" * 65_536 + b"\r\n\r\n", 431),
        (POST + b"X: " + b"x" * 1_000_000, 431),
        (POST + b"X: y\r\n" * 20_000 + b"\r\n", 431),
        (b"GET /" + b"x" * 65_536 + b" HTTP/1.1\r\nHost: h\r\n\r\n", 431),
        (b"\r\n" * 10_000 + GET, 431),
        (b"\r\n" * 1_000_000, 431),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 20_000 + b"\r\nx\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 20_000, 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 20_000, 400),
        (
            b"GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            400,
        ),
    ],
)
async def test_a_malformed_or_too_large_request_is_refused_and_the_connection_closed(
    data: bytes, status: int
):
    async def serve(stream: Stream) -> None:
        try:
            await echo(stream)
        except Refusal as refusal:
            await stream.respond(Response(400, Headers(), refusal.code.encode()))

    async with wire(serve) as served, await served.connect() as peer:
        peer.send(data)
        answer = await peer.answer()
        if answer.status == 100:
            answer = await peer.answer()
        assert (answer.status, answer.header("connection")) == (status, "close")
        assert answer.body
        assert await peer.rest() == b""
        await served.wait_until_gone()


async def test_a_few_blank_lines_before_a_request_are_skipped():
    async with wire() as served, await served.connect() as peer:
        for _ in range(3):
            peer.send(b"\r\n" * 4000 + GET)
            assert (await peer.answer()).status == 200


async def test_a_refusal_is_delivered_to_a_client_that_is_still_sending():
    async with wire() as served, await served.connect() as peer:
        peer.send(b"nonsense\r\n\r\n" + b"x" * 3_000_000)
        assert (await peer.answer()).status == 400
        assert await peer.rest() == b""


async def test_plain_http_on_a_tls_port_gets_an_explanation(certificate: Path):
    async with wire(certificate=certificate) as served:
        answer = await served.ask(GET)
        assert (answer.status, answer.header("connection")) == (400, "close")


async def test_a_client_that_speaks_neither_http_nor_tls_is_closed(
    certificate: Path, caplog: pytest.LogCaptureFixture
):
    async with wire(certificate=certificate) as served, await served.connect() as peer:
        peer.send(b"\x16\x03\x01\x00\x04oops" + b"\x00" * 100_000)
        await peer.rest()
        await served.wait_until_gone()
    assert "a client's TLS handshake failed: the client did not speak TLS" in caplog.messages
    assert not any("6f6f7073" in message for message in caplog.messages)


async def test_a_handshake_has_a_time_limit(certificate: Path):
    async with wire(certificate=certificate, head_timeout_s=0.3) as served, await served.connect() as peer:
        peer.send(b"\x16\x03\x01\x10\x00" + b"\x01\x00\x0f\xfc" + b"\x00" * 1_000)
        assert await peer.rest() == b""


async def test_refusals_write_a_bounded_number_of_log_lines(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "tollgate")
    async with wire() as served:
        for _ in range(40):
            assert (await served.ask(b"nonsense\r\n\r\n")).status == 400
        await asyncio.sleep(1.1)
    lines = [record for record in caplog.records if getattr(record, "event", "") == "request refused"]
    assert 10 <= len(lines) <= 30
    summaries = [
        record.getMessage() for record in caplog.records if getattr(record, "event", "") == "log limited"
    ]
    assert sum(int(line.split()[0]) for line in summaries) + len(lines) == 40


# The protocol of a client.


async def test_http_2_works_with_prior_knowledge(kind: dict[str, Any]):
    # The answer is the frame SETTINGS, of type 4.
    async with wire(**kind) as served, await served.connect() as peer:
        for byte in PREFACE:
            peer.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await peer.exactly(9))[3] == 4


async def test_alpn_selects_the_version_of_http(certificate: Path, trusting: ssl.SSLContext):
    async with wire(certificate=certificate, tls=trusting) as served:
        trusting.set_alpn_protocols(["h2", "http/1.1"])
        async with await served.connect() as peer:
            peer.send(GET)
            assert b"HTTP/1.1" not in await peer.rest()
        trusting.set_alpn_protocols(["http/1.1"])
        assert (await served.ask(GET)).status == 200


# Deadlines.


@pytest.mark.parametrize("begun", [b"G", b"PRI * HT", b"GET / HTTP/1.1\r\nHo"])
async def test_a_head_that_is_late_is_refused(begun: bytes):
    async with wire(head_timeout_s=0.3) as served, await served.connect() as peer:
        peer.send(begun)
        assert (await peer.answer()).status == 408
        assert await peer.rest() == b""


async def test_sending_byte_by_byte_does_not_extend_the_time_of_a_head():
    async with wire(head_timeout_s=0.5) as served, await served.connect() as peer:
        dripping = asyncio.create_task(drip(peer))
        assert (await peer.answer()).status == 408
        dripping.cancel()


async def drip(peer: Peer) -> None:
    peer.send(GET[:-2] + b"X: ")
    while True:
        peer.send(b"x")
        await asyncio.sleep(0.02)


async def test_a_silent_client_is_closed(kind: dict[str, Any]):
    async with wire(head_timeout_s=0.2, **kind) as served, await served.connect() as peer:
        assert await peer.rest() == b""
        await served.wait_until_gone()


async def test_a_client_that_never_begins_tls_is_closed(certificate: Path):
    async with wire(head_timeout_s=0.2, certificate=certificate) as served, await served.connect() as peer:
        assert await peer.rest() == b""
        await served.wait_until_gone()


async def test_an_idle_connection_is_closed(kind: dict[str, Any]):
    async with wire(idle_timeout_s=0.2, **kind) as served, await served.connect() as peer:
        peer.send(GET)
        assert (await peer.answer()).status == 200
        assert await peer.rest() == b""


async def test_the_connection_sets_no_deadline_for_a_call():
    held = Held()
    async with wire(held, head_timeout_s=0.1, idle_timeout_s=0.1) as served, await served.connect() as peer:
        peer.send(GET)
        await asyncio.sleep(0.5)
        held.go.set()
        assert (await peer.answer()).status == 200


async def test_clients_beyond_the_limit_are_closed():
    async with wire() as served:
        served.host.clients.limit = 1
        async with await served.connect() as first:
            first.send(GET)
            assert (await first.answer()).status == 200
            async with await served.connect() as second:
                assert await second.rest() == b""
            first.send(GET)
            assert (await first.answer()).status == 200


# Clients that leave, and calls that fail.


LEAVING = {
    "closes": lambda peer: peer.writer.close(),
    "half-closes": lambda peer: peer.writer.write_eof(),
    "resets": lambda peer: peer.reset(),
}


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("way", LEAVING)
async def test_a_client_that_leaves_ends_the_waiting_block(way: str, begins: bool):
    held = Held(begins=begins)
    async with wire(held) as served, await served.connect() as peer:
        peer.send(GET)
        await held.until(held.begun)
        LEAVING[way](peer)
        await held.until(held.ended)
        await served.wait_until_gone()
        assert held.left == 1
        assert held.streams[0].is_client_gone


async def test_a_tls_client_that_leaves_ends_the_waiting_block(certificate: Path, trusting: ssl.SSLContext):
    held = Held()
    async with wire(held, certificate, trusting) as served, await served.connect() as peer:
        peer.send(GET)
        await held.until(held.begun)
        peer.writer.close()
        await held.until(held.ended)
        await served.wait_until_gone()
        assert held.left == 1


@pytest.mark.parametrize("way", LEAVING)
async def test_a_client_that_leaves_within_its_body_ends_the_read(way: str):
    held = Held()
    async with wire(held) as served, await served.connect() as peer:
        peer.send(POST + b"Content-Length: 10\r\n\r\nhalf")
        await eventually(lambda: bool(held.streams))
        LEAVING[way](peer)
        await held.until(held.ended)
        await served.wait_until_gone()
        assert held.left == 1


async def test_the_call_of_a_client_that_left_goes_on():
    was_settled = asyncio.Event()
    go = asyncio.Event()

    async def serve(stream: Stream) -> None:
        try:
            with stream.while_connected():
                await asyncio.Event().wait()
        except ClientLeft:
            await go.wait()
            was_settled.set()

    async with wire(serve) as served, await served.connect() as peer:
        peer.send(GET)
        await asyncio.sleep(0.05)
        peer.reset()
        await eventually(lambda: not served.host.clients.open)
        assert not was_settled.is_set()
        gone = asyncio.create_task(served.wait_until_gone())
        await asyncio.sleep(0.05)
        assert not gone.done()
        go.set()
        await gone
        assert was_settled.is_set()


async def test_broken_framing_during_an_answer_ends_the_call():
    held = Held(begins=True, reads=False)
    async with wire(held) as served, await served.connect() as peer:
        peer.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        await peer.until(b"first\r\n")
        peer.send(b"zz\r\n")
        await held.until(held.ended)
        assert held.left == 1
        assert not (await peer.rest()).endswith(b"0\r\n\r\n")


async def test_a_call_that_fails_is_answered_and_logged_once(
    caplog: pytest.LogCaptureFixture, kind: dict[str, Any]
):
    async def serve(stream: Stream) -> None:
        raise RuntimeError("no")

    async with wire(serve, **kind) as served, await served.connect() as peer:
        peer.send(GET)
        answer = await peer.answer()
        assert (answer.status, answer.header("connection"), answer.body) == (500, "close", b"internal_error")
        assert await peer.rest() == b""
        await served.wait_until_gone()
    assert caplog.messages.count("a call failed") == 1


async def test_a_failed_stream_is_aborted(caplog: pytest.LogCaptureFixture):
    async def serve(stream: Stream) -> None:
        stream.begin(STREAM)
        await stream.send(b"first")
        raise RuntimeError("no")

    async with wire(serve) as served, await served.connect() as peer:
        peer.send(GET)
        assert (await peer.rest()).endswith(b"5\r\nfirst\r\n")
        await served.wait_until_gone()
    assert caplog.messages.count("a call failed") == 1


async def test_a_call_without_an_answer_is_a_failure(caplog: pytest.LogCaptureFixture):
    async def serve(stream: Stream) -> None:
        pass

    async with wire(serve) as served:
        assert (await served.ask(GET)).status == 500
    assert caplog.messages.count("a call ended without an answer") == 1


async def test_a_bug_in_a_connection_closes_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]
):
    def fail(*_: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr("addon.wire.http1.parse_request_head", fail)
    async with wire(**kind) as served, await served.connect() as peer:
        peer.send(GET)
        with suppress(ConnectionError):
            assert await peer.rest() == b""
        await served.wait_until_gone()
    assert caplog.messages.count("a client connection failed") == 1


async def test_a_call_can_abort_its_answer():
    async def serve(stream: Stream) -> None:
        stream.begin(STREAM)
        await stream.send(b"first")
        stream.abort()

    async with wire(serve) as served, await served.connect() as peer:
        peer.send(GET)
        assert (await peer.rest()).endswith(b"5\r\nfirst\r\n")
        await served.wait_until_gone()


# The end of the process.


async def test_a_drain_closes_idle_connections_and_lets_calls_end(kind: dict[str, Any]):
    held = Held()
    async with wire(held, **kind) as served, await served.connect() as idle, await served.connect() as busy:
        busy.send(GET)
        await held.until(held.begun)
        served.host.clients.close_when_idle()
        assert await idle.rest() == b""
        held.go.set()
        answer = await busy.answer()
        assert (answer.body, answer.header("connection")) == (b"ok", "close")
        assert await busy.rest() == b""
        await served.wait_until_gone()


async def test_closing_all_cuts_off_calls():
    held = Held(begins=True)
    async with wire(held) as served, await served.connect() as peer:
        peer.send(GET)
        await peer.until(b"first\r\n")
        await served.host.clients.close_all()
        assert await peer.rest() == b""
        assert held.left == 1


async def test_no_socket_and_no_task_is_left():
    held = Held()
    held.go.set()
    async with wire(held) as served:
        await served.ask(GET)
        files = len(os.listdir("/proc/self/fd"))
        for _ in range(50):
            async with await served.connect() as peer:
                peer.send(GET)
                await peer.answer()
        await served.wait_until_gone()
        assert len(os.listdir("/proc/self/fd")) <= files
