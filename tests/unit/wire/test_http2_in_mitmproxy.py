"""HTTP/2 inside mitmproxy: plain by prior knowledge, and over TLS by ALPN."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from rig.http2 import connect_http2, raw_frame, read_rest
from rig.large import sampled
from rig.wire import wire
from rig.wire_calls import TEXT, HeldCalls, read_body, wait_until

from addon.text.http_heads import ResponseHead
from addon.wire.stream import Stream

# Inside mitmproxy, plain by prior knowledge and over TLS by ALPN.


@pytest.fixture(params=["plain", "tls"])
def kind(
    request: pytest.FixtureRequest, authority: trustme.CA, trusting: ssl.SSLContext, tmp_path: Path
) -> dict[str, Any]:
    """The wire's arguments for a port without and with TLS."""
    if request.param == "plain":
        return {}
    pem = tmp_path / "server.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(pem))
    trusting.set_alpn_protocols(["h2"])
    return {"certificate": pem, "tls": trusting}


async def test_both_ways_serve_whole_streamed_and_large(kind: dict[str, Any]):
    async def serve(stream: Stream) -> None:
        body = await read_body(stream)
        stream.begin(ResponseHead(200, TEXT))
        for start in range(0, len(body), 100_000):
            await stream.send(body[start : start + 100_000])
        await stream.end(b"!")

    async with wire(serve, **kind) as served, connect_http2(served) as client:
        assert (await client.request(b"hello")).body == b"hello!"
        body = bytes(range(256)) * 4_096 * 5
        numbers = [client.begin() for _ in range(3)]
        for number in numbers:
            await client.send_body(number, body)
        for number in numbers:
            assert (await client.answer(number)).body == body + b"!"


@sampled(every=2)
async def test_both_ways_detect_a_client_that_leaves_and_keep_nothing(kind: dict[str, Any]):
    calls = HeldCalls()
    calls.finish.set()
    async with wire(calls.serve, **kind) as served:
        async with connect_http2(served) as client:
            numbers = [client.begin() for _ in range(3)]
            client.send()
            await wait_until(lambda: len(calls.streams) == 3)
            client.h2.reset_stream(numbers[0])
            client.send()
            await wait_until(lambda: len(calls.left) == 1)
        await served.wait_until_gone()
        assert len(calls.left) == 3


async def test_both_ways_drain(kind: dict[str, Any]):
    calls = HeldCalls()
    async with wire(calls.serve, **kind) as served, connect_http2(served) as client:
        client.begin(ends=True)
        client.send()
        await wait_until(lambda: len(calls.streams) == 1)
        served.host.clients.close_when_idle()
        calls.go_on.set()
        assert b"done" in await read_rest(client)
        await served.wait_until_gone()


async def test_both_ways_end_a_flood_with_goaway(kind: dict[str, Any]):
    async with wire(**kind) as served, connect_http2(served) as client:
        client.send(raw_frame(6, 0, 0, bytes(8)) * 1_100)
        await client.wait_until_closed()
        assert client.goaway == ErrorCodes.ENHANCE_YOUR_CALM
        await served.wait_until_gone()


async def test_both_ways_stop_a_call_whose_client_does_not_read(kind: dict[str, Any]):
    sent = 0

    async def serve(stream: Stream) -> None:
        nonlocal sent
        stream.begin(ResponseHead(200, TEXT))
        while True:
            await stream.send(b"x" * 16_384)
            sent += 16_384

    window = {SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1}
    async with wire(serve, **kind) as served, connect_http2(served, window) as client:
        client.h2.increment_flow_control_window(2**31 - 1 - 65_535)
        client.begin(ends=True)
        client.send()
        before = -1
        while before != sent or not sent:
            before = sent
            await asyncio.sleep(0.1)
        [one] = served.host.clients.open.values()
        assert one.socket.buffered_bytes < 200_000
