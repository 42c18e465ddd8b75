"""HTTP/1.1 toward clients: requests that are malformed, too large or too late."""

import asyncio
import logging
from typing import Any

import pytest
from rig.wire import Peer, echo, wire
from rig.wire_calls import GET, POST, HeldCall

from addon.text.http_heads import Headers, Response
from addon.wire.stream import Stream
from policies.refusal import Refusal

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
