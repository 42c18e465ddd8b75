"""The client connections of a process: their bound, mitmproxy's watchdog, drain and end."""

import asyncio
import os
from typing import Any

from rig.wire import wire
from rig.wire_calls import GET, STREAM, HeldCall

from addon.wire.stream import Stream


async def test_a_stream_outlives_the_watchdog_of_mitmproxy():
    async def serve(stream: Stream) -> None:
        stream.begin(STREAM)
        await stream.send(b"first")
        await asyncio.sleep(2.2)
        await stream.end(b"last")

    async with wire(serve, tcp_timeout=1) as served:
        assert (await served.ask(GET)).body == b"firstlast"


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


async def test_a_drain_closes_idle_connections_and_lets_calls_end(kind: dict[str, Any]):
    held = HeldCall()
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
    held = HeldCall(begins=True)
    async with wire(held) as served, await served.connect() as peer:
        peer.send(GET)
        await peer.until(b"first\r\n")
        await served.host.clients.close_all()
        assert await peer.rest() == b""
        assert held.left == 1


async def test_no_socket_and_no_task_is_left():
    held = HeldCall()
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
