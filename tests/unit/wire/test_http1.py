"""HTTP/1.1 toward clients, inside mitmproxy, on real sockets."""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
from rig.bounds import BOUND_S
from rig.wire import Peer, echo, wire
from rig.wire_calls import GET, OK, POST, STREAM, HeldCall, wait_until, wait_until_stable

from addon.text.http_heads import Headers, Response
from addon.wire.http1_stream import Http1Stream
from addon.wire.stream import ClientLeft, Stream
from policies.refusal import Refusal

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


async def test_an_idle_connection_is_closed(kind: dict[str, Any]):
    async with wire(idle_timeout_s=0.2, **kind) as served, await served.connect() as peer:
        peer.send(GET)
        assert (await peer.answer()).status == 200
        assert await peer.rest() == b""


async def test_the_connection_sets_no_deadline_for_a_call():
    held = HeldCall()
    async with wire(held, head_timeout_s=0.1, idle_timeout_s=0.1) as served, await served.connect() as peer:
        peer.send(GET)
        await asyncio.sleep(0.5)
        held.go.set()
        assert (await peer.answer()).status == 200


# Clients that leave, and calls that fail.


LEAVING = {
    "closes": lambda peer: peer.writer.close(),
    "half-closes": lambda peer: peer.writer.write_eof(),
    "resets": lambda peer: peer.reset(),
}


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("way", LEAVING)
async def test_a_client_that_leaves_ends_the_waiting_block(way: str, begins: bool):
    held = HeldCall(begins=begins)
    async with wire(held) as served, await served.connect() as peer:
        peer.send(GET)
        await held.until(held.begun)
        LEAVING[way](peer)
        await held.until(held.ended)
        await served.wait_until_gone()
        assert held.left == 1
        assert held.streams[0].is_client_gone


async def test_a_tls_client_that_leaves_ends_the_waiting_block(certificate: Path, trusting: ssl.SSLContext):
    held = HeldCall()
    async with wire(held, certificate, trusting) as served, await served.connect() as peer:
        peer.send(GET)
        await held.until(held.begun)
        peer.writer.close()
        await held.until(held.ended)
        await served.wait_until_gone()
        assert held.left == 1


@pytest.mark.parametrize("way", LEAVING)
async def test_a_client_that_leaves_within_its_body_ends_the_read(way: str):
    held = HeldCall()
    async with wire(held) as served, await served.connect() as peer:
        peer.send(POST + b"Content-Length: 10\r\n\r\nhalf")
        await wait_until(lambda: bool(held.streams))
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
        await wait_until(lambda: not served.host.clients.open)
        assert not was_settled.is_set()
        gone = asyncio.create_task(served.wait_until_gone())
        await asyncio.sleep(0.05)
        assert not gone.done()
        go.set()
        await gone
        assert was_settled.is_set()


async def test_broken_framing_during_an_answer_ends_the_call():
    held = HeldCall(begins=True, reads=False)
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


async def test_a_call_can_abort_its_answer():
    async def serve(stream: Stream) -> None:
        stream.begin(STREAM)
        await stream.send(b"first")
        stream.abort()

    async with wire(serve) as served, await served.connect() as peer:
        peer.send(GET)
        assert (await peer.rest()).endswith(b"5\r\nfirst\r\n")
        await served.wait_until_gone()
