"""Frames of HTTP/2 clients: floods end the connection at their budget, and broken frames end it with GOAWAY."""

import asyncio
import logging
from contextlib import suppress

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes, Settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rig.http2 import REQUEST, Client, block, connect_http2, head_frame, raw_frame, read_goaway, read_rest
from rig.http2_server import serve_http2
from rig.wire_calls import TEXT, HeldCalls, echo_body, wait_until

from addon.text.http_heads import Response
from addon.wire.http2 import MAX_CALLS
from addon.wire.http2_frames import (
    CONTINUATION,
    END_HEADERS,
    HEADERS,
    PREFACE,
    BudgetError,
    Frame,
    FrameBudgets,
)
from addon.wire.stream import Stream

OPEN = head_frame(1, block(*REQUEST), "END_HEADERS")


FLOODS = {
    "ping": (raw_frame(6, 0, 0, bytes(8)), b"", 1_002),
    "ping replies": (raw_frame(6, 1, 0, bytes(8)), b"", 1_002),
    "settings": (raw_frame(4, 0, 0), b"", 1_002),
    "settings replies": (raw_frame(4, 1, 0), b"", 1_002),
    "large settings": (raw_frame(4, 0, 0, bytes.fromhex("f00000000001") * 33), b"", 1),
    "priority": (raw_frame(2, 0, 3, bytes(5)), b"", 1_002),
    "unknown": (raw_frame(0xEE, 0, 0), b"", 1_002),
    "large unknown": (raw_frame(0xEE, 0, 0, bytes(16_384)), b"", 20),
    "empty data": (raw_frame(0, 0, 1), OPEN, 1_002),
    "padded empty data": (raw_frame(0, 8, 1, b"\x03\0\0\0"), OPEN, 1_002),
    "small data": (raw_frame(0, 0, 1, b"x"), OPEN, 6_000),
    "heads of a closed stream": (OPEN, OPEN + raw_frame(3, 0, 1, bytes(4)), 1_002),
    "window updates": (raw_frame(8, 0, 0, (1).to_bytes(4)), b"", 2_100),
    "empty continuation": (raw_frame(9, 0, 1), head_frame(1, b""), 65),
    "large continuation": (raw_frame(9, 0, 1, b"\0" * 16_384), head_frame(1, b""), 5),
    "data after the end": (
        raw_frame(0, 0, 1, b"x" * 16_384),
        head_frame(1, block(*REQUEST), "END_HEADERS"),
        800,
    ),
}


@pytest.mark.parametrize("name", FLOODS)
async def test_a_flood_ends_the_connection(name: str, caplog: pytest.LogCaptureFixture):
    frame, first, most = FLOODS[name]

    async def serve(stream: Stream) -> None:
        if name == "data after the end":
            await stream.respond(Response(413, TEXT))
        else:
            await echo_body(stream)

    caplog.set_level(logging.DEBUG, "tollgate.wire")
    async with serve_http2(serve) as server, connect_http2(server) as client:
        await client.until(lambda: client.events["SettingsAcknowledged"] > 0)
        if name == "data after the end":
            client.begin()
            client.send()
            await client.answer(1)
        taken = counted(server)
        client.send(first)
        sending = asyncio.create_task(flood(client, frame))
        found = await read_goaway(client, b"")
        await read_rest(client)
        client.has_closed = True
        # The library itself ends a header block of more than 64 frames.
        assert found["goaway"] == (
            ErrorCodes.PROTOCOL_ERROR if name == "empty continuation" else ErrorCodes.ENHANCE_YOUR_CALM
        )
        assert taken() <= 2 * most + 10  # on a loaded machine the budget is refilled in between
        await sending
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def counted(server):
    """Return how many frames the connection has accepted so far."""
    count = 0
    connection = server.connection
    take = connection._handle_frame

    def counting(frame) -> None:
        nonlocal count
        count += 1
        take(frame)

    connection._handle_frame = counting
    return lambda: count


async def flood(client: Client, frame: bytes) -> None:
    with suppress(ConnectionError):
        while not client.has_closed:
            client.writer.write(frame * 50)
            await client.writer.drain()
            await asyncio.sleep(0)


async def test_rapid_resets_end_the_connection_and_few_calls_run():
    calls = HeldCalls()
    async with serve_http2(calls.serve) as server, connect_http2(server) as client:
        await client.until(lambda: client.events["RemoteSettingsChanged"] > 0)
        # A budget that is refilled by the second: how many it takes depends on the machine.
        for _ in range(10_000):
            if server.connection._is_finished:
                break
            stream_id = client.begin(ends=True)
            client.send()
            await asyncio.sleep(0)
            client.h2.reset_stream(stream_id)
            client.send()
            await asyncio.sleep(0)
        await client.wait_until_closed()
        assert client.goaway == ErrorCodes.ENHANCE_YOUR_CALM
        assert len(calls.streams) <= MAX_CALLS
        calls.finish.set()


async def test_streams_that_the_client_makes_us_reset_count_as_resets():
    calls = HeldCalls()
    async with serve_http2(calls.serve) as server, connect_http2(server) as client:
        await client.until(lambda: client.events["SettingsAcknowledged"] > 0)
        client.h2.remote_settings = Settings(client=False)
        taken = counted(server)
        # A budget that is refilled by the second: how many it takes depends on the machine.
        for _ in range(10_000):
            if server.connection._is_finished:
                break
            stream_id = client.begin(ends=True)
            client.send(raw_frame(8, 0, stream_id, b"\x7f\xff\xff\xff"))
            await asyncio.sleep(0)
        await client.wait_until_closed()
        assert client.goaway == ErrorCodes.ENHANCE_YOUR_CALM
        assert taken() < 4_500
        assert len(calls.streams) <= MAX_CALLS
        calls.finish.set()


async def test_a_window_that_opens_byte_by_byte_ends_the_connection():
    async def serve(stream: Stream) -> None:
        await stream.respond(Response(200, TEXT, b"x" * 1_000_000))

    window = {SettingCodes.INITIAL_WINDOW_SIZE: 0}
    async with serve_http2(serve) as server, connect_http2(server, window, acks=False) as client:
        client.begin(ends=True)
        client.send()
        taken = counted(server)
        sending = asyncio.create_task(flood(client, raw_frame(8, 0, 1, (1).to_bytes(4))))
        found = await read_goaway(client, b"")
        await read_rest(client)
        client.has_closed = True
        await sending
        assert found["goaway"] == ErrorCodes.ENHANCE_YOUR_CALM
        assert taken() <= 5_000


BROKEN = {
    "no preface": (b"GET / HTTP/1.1\r\n\r\n", ErrorCodes.PROTOCOL_ERROR),
    "a frame of 16 MB": (PREFACE + raw_frame(0, 0, 1, b"", length=0xFFFFFF), ErrorCodes.FRAME_SIZE_ERROR),
    "data of no stream": (PREFACE + raw_frame(0, 0, 1, b"x"), ErrorCodes.PROTOCOL_ERROR),
    "another frame in a header block": (
        PREFACE + head_frame(1, b"\x82") + raw_frame(6, 0, 0, bytes(8)),
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "goaway in a header block": (
        PREFACE + head_frame(1, b"\x82") + raw_frame(7, 0, 0, bytes(8)),
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "a block that does not decode": (
        PREFACE + raw_frame(1, 5, 1, b"\xff\xff\xff\xff\xff\xff"),
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "a block that grows": (
        PREFACE + raw_frame(1, 5, 1, b"\x40\x01a\x7f\x81\x1e" + b"x" * 4_000 + b"\xbe" * 10_000),
        ErrorCodes.ENHANCE_YOUR_CALM,
    ),
    "a push": (PREFACE + raw_frame(5, 4, 1, bytes(4)), ErrorCodes.PROTOCOL_ERROR),
    "a window of nothing more": (PREFACE + raw_frame(8, 0, 0, bytes(4)), ErrorCodes.PROTOCOL_ERROR),
    "a window too large": (PREFACE + raw_frame(8, 0, 0, b"\x7f\xff\xff\xff"), ErrorCodes.FLOW_CONTROL_ERROR),
    "more than the window": (
        PREFACE + OPEN + b"".join(raw_frame(0, 0, 1, b"x" * 16_384) for _ in range(5)),
        ErrorCodes.FLOW_CONTROL_ERROR,
    ),
    "a stream number of ours": (
        PREFACE + head_frame(2, block(*REQUEST), "END_HEADERS"),
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "too much padding": (PREFACE + OPEN + raw_frame(0, 8, 1, b"\xff"), ErrorCodes.PROTOCOL_ERROR),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_protocol_ends_with_goaway_and_no_traceback(
    name: str, caplog: pytest.LogCaptureFixture
):
    data, code = BROKEN[name]
    calls = HeldCalls()
    calls.finish.set()
    async with serve_http2(calls.serve) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        client = Client(reader, writer, acks=True)
        writer.write(data)
        found = await read_goaway(client, b"")
        assert found["goaway"] == code
        await read_rest(client)
        writer.close()
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(0, 11),
            st.integers(0, 255),
            st.sampled_from([0, 1, 1, 1, 2, 3, 5]),
            st.one_of(
                st.binary(max_size=40),
                st.just(block(*REQUEST)),
                st.binary(min_size=4, max_size=8),
                st.just(b""),
            ),
        ),
        max_size=30,
    ),
    st.integers(1, 200),
)
def test_no_frames_crash_a_connection(frames: list[tuple[int, int, int, bytes]], cut: int):
    async def run() -> None:
        async with serve_http2(echo_body) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            await wait_until(lambda: bool(server.connections))
            data = PREFACE + b"".join(raw_frame(*frame) for frame in frames)
            for start in range(0, len(data), cut):
                server.connection.data_received(data[start : start + cut])
                await asyncio.sleep(0)
            writer.close()
            await writer.wait_closed()

    asyncio.run(run())


def test_continuation_frames_are_counted_whatever_is_in_them() -> None:
    """A header block has few of them, but a client may send one block after the other."""
    budgets = FrameBudgets()
    blocks = [
        frame_of(kind, flags, stream_id)
        for stream_id in range(1, 2_001, 2)
        for kind, flags in ((HEADERS, 0), (CONTINUATION, 0), (CONTINUATION, END_HEADERS))
    ]
    for frame in blocks[:1_500]:
        budgets.admit(frame, 0, is_open=False, is_late=False)
    budgets.admit(blocks[1_500], 0, is_open=False, is_late=False)
    with pytest.raises(BudgetError, match="control frames"):
        budgets.admit(blocks[1_501], 0, is_open=False, is_late=False)


def frame_of(kind: int, flags: int, stream_id: int) -> Frame:
    """Return a frame with one byte."""
    return Frame(kind, flags, stream_id, raw_frame(kind, flags, stream_id, b"\0"))
