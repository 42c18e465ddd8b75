"""Deadlines of HTTP/2 connections: heads, idle connections, and clients that never read."""

import asyncio

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from rig.bounds import BOUND_S
from rig.http2 import connect_http2, raw_frame
from rig.http2_server import serve_http2
from rig.wire_calls import HeldCalls, echo_body

from addon.wire.http2_frames import PREFACE


@pytest.mark.parametrize(
    ("bounds", "requests"),
    [({"head_timeout_s": 0.05}, 0), ({"idle_timeout_s": 0.05}, 1)],
    ids=["silent", "idle"],
)
async def test_a_connection_without_streams_is_closed(bounds: dict[str, float], requests: int):
    async with serve_http2(echo_body, **bounds) as server, connect_http2(server) as client:
        for _ in range(requests):
            await client.request(b"x")
        await client.wait_until_closed()
        assert client.goaway == ErrorCodes.NO_ERROR


@pytest.mark.parametrize(
    "begun", [b"", PREFACE[:10], raw_frame(1, 0, 1, b"", length=100), raw_frame(1, 0, 1, b"\x82")]
)
async def test_a_head_that_does_not_end_closes_the_connection(begun: bytes):
    calls = HeldCalls()
    async with serve_http2(calls.serve, head_timeout_s=0.05) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(begun if begun in PREFACE else PREFACE + raw_frame(4, 0, 0) + begun)
        async with asyncio.timeout(BOUND_S):
            while await reader.read(65_536):
                pass
        writer.close()


async def test_an_http2_client_that_never_reads_is_cut_off():
    calls = HeldCalls()
    calls.go_on.set()
    calls.finish.set()
    window = {SettingCodes.INITIAL_WINDOW_SIZE: 1}
    async with (
        serve_http2(calls.serve, write_timeout_s=0.1) as server,
        connect_http2(server, window, acks=False) as client,
    ):
        stream_id = client.begin(ends=True)
        client.send()
        await client.wait_until_closed()
        assert client.answers[stream_id].body == b"d"
        assert [stream.is_cut_off for stream in calls.left] == [True]
