"""The bounds of the h2 library: open streams, closed streams, and settings of the client."""

from h2.errors import ErrorCodes
from h2.settings import Settings
from rig.http2 import connect_http2, raw_frame
from rig.http2_server import serve_http2
from rig.wire_calls import HeldCalls, echo_body

from addon.wire.http2_library import MAX_STREAMS


async def test_a_long_connection_keeps_little_state():
    async with serve_http2(echo_body) as server, connect_http2(server) as client:
        for _ in range(1_050):
            await client.request(b"x")
        h2 = server.connection._h2
        assert len(h2.streams) <= 2
        assert len(h2._closed_streams) <= 1_000
        assert not h2.encoder.header_table.dynamic_entries
        assert not server.connection._open and not server.connection._streams


async def test_streams_beyond_the_advertised_limit_are_refused():
    calls = HeldCalls()
    async with serve_http2(calls.serve) as server, connect_http2(server) as client:
        await client.until(lambda: client.h2.remote_settings.max_concurrent_streams == MAX_STREAMS)
        client.h2.remote_settings = Settings(client=False)
        numbers = [client.begin(ends=True) for _ in range(MAX_STREAMS + 5)]
        client.send()
        for stream_id in numbers[MAX_STREAMS:]:
            assert (await client.answer(stream_id)).reset == ErrorCodes.REFUSED_STREAM
        calls.go_on.set()
        for stream_id in numbers[:MAX_STREAMS]:
            assert (await client.answer(stream_id)).body == b"done"
        assert len(calls.streams) == MAX_STREAMS


async def test_settings_of_a_client_do_not_grow_our_memory():
    async with serve_http2(echo_body) as server, connect_http2(server) as client:
        for first in range(100, 2_000, 32):
            pairs = b"".join(number.to_bytes(2) + bytes(4) for number in range(first, first + 32))
            client.send(raw_frame(4, 0, 0, pairs + b""))
        client.h2.decoder.max_allowed_table_size = 2**31
        client.send(raw_frame(4, 0, 0, (1).to_bytes(2) + (2**31).to_bytes(4)))
        await client.request(b"x")
        h2 = server.connection._h2
        assert len(h2.remote_settings) < 20
        assert h2.encoder.header_table_size == 4_096
