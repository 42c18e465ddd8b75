"""The output of HTTP/2 connections: few writes, fields, windows, and clients that read slowly."""

import asyncio
import logging

import pytest
from h2.settings import SettingCodes
from rig.http2 import connect_http2, raw_frame, replace_field
from rig.http2_server import serve_http2
from rig.wire_calls import TEXT, wait_until

from addon.text.http_heads import Headers, ResponseHead
from addon.wire.stream import Stream


async def test_an_answer_is_one_write_and_so_is_all_output_of_one_turn():
    async def serve(stream: Stream) -> None:
        stream.begin(ResponseHead(200, Headers([("content-type", "text/event-stream")])))
        for _ in range(10):
            await stream.send(b"data: x\n\n")
        await stream.end(b"data: [DONE]\n\n")

    async with serve_http2(serve) as server, connect_http2(server) as client:
        await client.until(lambda: client.events["SettingsAcknowledged"] > 0)
        before = len(server.transports[0].writes)
        answer = await client.request(b"x")
        assert answer.body == b"data: x\n\n" * 10 + b"data: [DONE]\n\n"
        assert answer.frames == 11
        assert len(server.transports[0].writes) - before == 1


async def test_only_fields_of_http2_are_sent():
    fields = [("connection", "close"), ("transfer-encoding", "chunked"), ("keep-alive", "5"), ("x-a", "b")]

    async def serve(stream: Stream) -> None:
        stream.begin(ResponseHead(200, Headers(fields)))
        await stream.end()

    async with serve_http2(serve) as server, connect_http2(server) as client:
        answer = await client.request()
        assert set(answer.headers) == {":status", "x-a", "date"}


async def test_a_client_without_a_window_makes_the_call_wait():
    progress = []

    async def serve(stream: Stream) -> None:
        stream.begin(ResponseHead(200, TEXT))
        for number in range(4):
            await stream.send(b"x" * 1_000)
            progress.append(number)
        await stream.end()

    window = {SettingCodes.INITIAL_WINDOW_SIZE: 1_500}
    async with serve_http2(serve) as server, connect_http2(server, window, acks=False) as client:
        stream_id = client.begin(ends=True)
        client.send()
        await client.until(lambda: len(client.answers[stream_id].body) == 1_500)
        assert progress == [0]
        [stream] = server.connection._streams
        assert stream.has_backlog
        client.h2.increment_flow_control_window(1_000, stream_id)
        client.send()
        await client.until(lambda: len(client.answers[stream_id].body) == 2_500)
        assert progress == [0, 1]
        client.h2.increment_flow_control_window(10_000, stream_id)
        client.send()
        answer = await client.answer(stream_id)
        assert (len(answer.body), progress) == (4_000, [0, 1, 2, 3])


async def test_a_stream_waits_while_its_window_is_negative(caplog: pytest.LogCaptureFixture):
    sent = asyncio.Event()
    go_on = asyncio.Event()

    async def serve(stream: Stream) -> None:
        stream.begin(ResponseHead(200, TEXT))
        await stream.send(b"x" * 10_000)
        sent.set()
        await go_on.wait()
        await stream.send(b"y" * 10_000) if stream.head.path == "/more" else await stream.end()
        if not stream.is_ended:
            await stream.end()

    async with serve_http2(serve) as server, connect_http2(server, acks=False) as client:
        plain = client.begin(ends=True)
        more = client.begin(fields=replace_field(":path", "/more"), ends=True)
        client.send()
        await client.until(lambda: all(len(client.answers[one].body) == 10_000 for one in (plain, more)))
        client.send(raw_frame(4, 0, 0, (4).to_bytes(2) + (0).to_bytes(4)))
        await client.until(lambda: client.events["SettingsAcknowledged"] == 2)
        h2 = server.connection._h2
        assert h2.local_flow_control_window(plain) == h2.local_flow_control_window(more) == -10_000
        go_on.set()
        # An empty last frame needs no window. Data waits for it.
        assert (await client.answer(plain)).has_ended
        client.send(raw_frame(8, 0, more, (12_000).to_bytes(4)))
        await client.until(lambda: len(client.answers[more].body) == 12_000)
        client.send(raw_frame(8, 0, more, (8_000).to_bytes(4)))
        assert len((await client.answer(more)).body) == 20_000
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_a_client_that_does_not_read_stops_the_call_at_the_high_water_mark():
    sent = 0

    async def serve(stream: Stream) -> None:
        nonlocal sent
        stream.begin(ResponseHead(200, TEXT))
        while sent < 50_000_000:
            await stream.send(b"x" * 16_384)
            sent += 16_384
        await stream.end()

    window = {SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1}
    async with serve_http2(serve) as server, connect_http2(server, window) as client:
        client.h2.increment_flow_control_window(2**31 - 1 - 65_535)
        stream_id = client.begin(ends=True)
        client.send()
        await wait_until(lambda: bool(server.connections) and server.connection._output.is_full)
        await asyncio.sleep(0.05)
        assert server.transports[0].buffered_bytes < 65_536 * 2 + 20_000
        assert sent < 20_000_000  # most of it in the buffers of the two sockets
        while client.answers[stream_id].body == b"" or sent < 50_000_000:
            await client.take()
            client.answers[stream_id].body = bytearray(b"x")
        await client.answer(stream_id)
