"""HTTP/1.1 toward clients: clients that leave, and calls that fail."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from rig.wire import wire
from rig.wire_calls import GET, POST, STREAM, HeldCall, wait_until

from addon.wire.stream import ClientLeft, Stream

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
