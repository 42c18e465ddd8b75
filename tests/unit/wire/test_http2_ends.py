"""HTTP/2 toward clients: clients that leave, calls that fail, and the end of a connection."""

import asyncio

import httpx
import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from rig.bounds import BOUND_S
from rig.http2 import REQUEST, block, connect_http2, raw_frame, read_goaway, read_rest, replace_field
from rig.http2_server import serve_http2
from rig.wire_calls import TEXT, HeldCalls, echo_body, wait_until

from addon.text.http_heads import Response, ResponseHead
from addon.wire.stream import ClientLeft, Stream


async def test_the_client_of_a_request_that_is_reset_in_the_same_read_is_gone_before_the_call_starts():
    begun, passed = [], []

    async def serve(stream: Stream) -> None:
        begun.append(stream.is_client_gone)
        with stream.while_connected():
            passed.append(stream)
        await echo_body(stream)

    async with serve_http2(serve) as server, connect_http2(server) as client:
        for _ in range(10):
            stream_id = client.begin()
            client.h2.send_data(stream_id, b"x", end_stream=True)
            client.h2.reset_stream(stream_id)
        client.send()
        await client.request()
        assert begun == [True] * 10 + [False]
        assert len(passed) == 1
        assert server.connection.stream_count == 0


async def test_a_call_whose_stream_is_reset_ends_by_itself():
    calls = HeldCalls()
    async with serve_http2(calls.serve) as server, connect_http2(server) as client:
        stream_id = client.begin(ends=True)
        client.send()
        await wait_until(lambda: len(calls.streams) == 1)
        client.h2.reset_stream(stream_id)
        client.send()
        await wait_until(lambda: len(calls.left) == 1)
        assert server.connection.stream_count == 1
        calls.finish.set()
        await server.connection.wait_for_tasks()
        calls.go_on.set()
        assert (await client.request()).body == b"done"


@pytest.mark.parametrize("how", ["half", "whole", "reset"])
async def test_the_client_of_every_call_is_gone_with_its_connection(how: str):
    calls = HeldCalls()
    async with serve_http2(calls.serve) as server, connect_http2(server) as client:
        for _ in range(3):
            client.begin()
        client.send()
        await wait_until(lambda: len(calls.streams) == 3)
        if how == "half":
            client.writer.write_eof()
        elif how == "whole":
            client.writer.close()
        else:
            client.writer.transport.abort()
        await wait_until(lambda: len(calls.left) == 3)
        calls.finish.set()
        await server.connection.wait_for_tasks()
        await wait_until(lambda: server.transports[0].is_closing)


async def test_a_waiting_reader_and_a_waiting_writer_end():
    left = []

    async def serve(stream: Stream) -> None:
        try:
            if stream.head.path == "/read":
                await stream.read()
            else:
                await stream.respond(Response(200, TEXT, b"x" * 100))
        except ClientLeft:
            left.append(stream.head.path)

    window = {SettingCodes.INITIAL_WINDOW_SIZE: 10}
    async with serve_http2(serve) as server, connect_http2(server, window, acks=False) as client:
        reads = client.begin(fields=replace_field(":path", "/read"))
        writes = client.begin(fields=replace_field(":path", "/write"), ends=True)
        client.send()
        await client.until(lambda: client.answers[writes].body == b"x" * 10)
        client.h2.reset_stream(reads)
        client.h2.reset_stream(writes)
        client.send()
        await wait_until(lambda: sorted(left) == ["/read", "/write"])
        await server.connection.wait_for_tasks()


async def test_an_exception_of_a_call_is_a_500_or_a_reset(caplog: pytest.LogCaptureFixture):
    async def serve(stream: Stream) -> None:
        if stream.head.path == "/late":
            stream.begin(ResponseHead(200, TEXT))
            await stream.send(b"some")
        raise ZeroDivisionError

    async with serve_http2(serve) as server, connect_http2(server) as client:
        early = await client.request()
        assert (early.status, early.has_ended) == (500, True)
        late = await client.request(fields=replace_field(":path", "/late"))
        assert (late.body, late.reset) == (b"some", ErrorCodes.INTERNAL_ERROR)
        assert (await client.request()).status == 500


async def test_a_call_may_abort_its_answer():
    async def serve(stream: Stream) -> None:
        stream.begin(ResponseHead(200, TEXT))
        await stream.send(b"some")
        stream.abort()

    async with serve_http2(serve) as server, connect_http2(server) as client:
        answer = await client.request()
        assert (answer.body, answer.reset) == (b"some", ErrorCodes.INTERNAL_ERROR)


async def test_a_drained_connection_finishes_its_streams_and_closes():
    calls = HeldCalls()
    async with serve_http2(calls.serve) as server, connect_http2(server) as client:
        stream_id = client.begin(ends=True)
        client.send()
        await wait_until(lambda: len(calls.streams) == 1)
        server.connection.close_when_idle()
        client.send(raw_frame(1, 0x5, 3, block(*REQUEST)))
        found = await read_goaway(client, b"")
        assert found == {"last": stream_id, "goaway": ErrorCodes.NO_ERROR}
        calls.go_on.set()
        assert b"done" in await read_rest(client)
        assert len(calls.streams) == 1


async def test_a_request_on_its_way_is_served_when_the_end_is_announced():
    async with serve_http2(echo_body) as server, connect_http2(server) as client:
        await client.request(b"x")
        server.connection.announce_end()
        server.connection.announce_end()
        found = await read_goaway(client, raw_frame(1, 0x5, 3, block(*REQUEST)))
        assert found == {"last": 2**31 - 1, "goaway": ErrorCodes.NO_ERROR}
        async with asyncio.timeout(BOUND_S):
            await client.reader.readuntil(b"\x00\x00\x00\x03")  # the answer on stream 3
        server.connection.close_when_idle()
        assert (await read_goaway(client, b""))["last"] == 3
        await read_rest(client)


async def test_a_client_on_the_h2_library_gets_its_answers_from_a_drained_connection():
    calls = HeldCalls()
    async with serve_http2(calls.serve) as server, connect_http2(server) as client:
        numbers = [client.begin(ends=True) for _ in range(3)]
        client.send()
        await wait_until(lambda: len(calls.streams) == 3)
        server.connection.announce_end()
        numbers.append(client.begin(ends=True))
        client.send()
        await wait_until(lambda: len(calls.streams) == 4)
        server.connection.close_when_idle()
        calls.go_on.set()
        await client.wait_until_closed()
        assert [client.answers[one].body for one in numbers] == [b"done"] * 4
        assert client.goaway == ErrorCodes.NO_ERROR


async def test_a_drained_connection_without_streams_closes_at_once():
    async with serve_http2(echo_body) as server, connect_http2(server) as client:
        await client.request(b"x")
        server.connection.close_when_idle()
        await client.wait_until_closed()
        assert client.goaway == ErrorCodes.NO_ERROR


async def test_a_client_that_goes_away_gets_its_answers():
    calls = HeldCalls()
    async with serve_http2(calls.serve) as server, connect_http2(server) as client:
        client.begin(ends=True)
        client.send(raw_frame(7, 0, 0, bytes(8)))
        await wait_until(lambda: len(calls.streams) == 1 and server.connection.is_draining)
        calls.go_on.set()
        assert (await client.answer(1)).body == b"done"
        await client.wait_until_closed()


async def test_another_implementation_of_http2_is_served():
    async with (
        serve_http2(echo_body) as server,
        httpx.AsyncClient(http1=False, http2=True, trust_env=False, timeout=BOUND_S) as client,
    ):
        body = bytes(range(256)) * 4_000
        answers = await asyncio.gather(
            *(client.post(f"http://127.0.0.1:{server.port}/v1/x", content=body) for _ in range(20))
        )
        assert [(one.http_version, one.status_code, one.content) for one in answers] == [
            ("HTTP/2", 200, body)
        ] * 20
        assert len(server.connections) == 1
