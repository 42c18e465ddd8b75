"""Bodies of HTTP/2 requests: joined pieces, windows, lengths, 100 Continue, and early answers."""

import asyncio

import pytest
from h2.errors import ErrorCodes
from rig.bounds import BOUND_S
from rig.http2 import REQUEST, connect_http2, raw_frame
from rig.http2_server import serve_http2
from rig.wire_calls import TEXT, HeldCalls, echo_body, wait_until

from addon.text.http_heads import Response
from addon.wire.http2_stream import Http2Stream
from addon.wire.stream import Stream
from policies.refusal import Refusal


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_an_answer_without_a_body_has_none(method: str, status: int):
    async def serve(stream: Stream) -> None:
        await stream.respond(Response(status, TEXT, b"four"))

    async with serve_http2(serve) as server, connect_http2(server) as client:
        answer = await client.request(fields=((":method", method), *REQUEST[1:]))
        assert (answer.status, answer.body, answer.has_ended) == (status, b"", True)
        assert answer.headers.get("content-length") == ("4" if status == 200 else None)


async def test_a_large_body_arrives_in_joined_pieces():
    body, pieces = bytes(range(256)) * 4_096 * 30, []

    async def serve(stream: Stream) -> None:
        while piece := await stream.read():
            pieces.append(piece)
        await stream.respond(Response(200, TEXT, b"".join(pieces)))

    async with serve_http2(serve) as server, connect_http2(server) as client:
        stream_id = client.begin()
        await client.send_body(stream_id, body)
        answer = await client.answer(stream_id)
        assert answer.body == body
        assert max(map(len, pieces)) <= 65_535


async def test_pieces_of_one_read_are_joined():
    pieces = []

    async def serve(stream: Stream) -> None:
        while piece := await stream.read():
            pieces.append(piece)
        await stream.respond(Response(200, TEXT))

    async with serve_http2(serve) as server, connect_http2(server) as client:
        stream_id = client.begin()
        for _ in range(500):
            client.h2.send_data(stream_id, b"x" * 10)
        client.h2.end_stream(stream_id)
        client.send()
        await client.answer(stream_id)
        assert sum(map(len, pieces)) == 5_000
        assert len(pieces) <= 3


async def test_unread_bodies_are_bounded_for_a_stream_and_for_a_connection():
    calls = HeldCalls()
    async with serve_http2(calls.serve) as server, connect_http2(server) as client:
        first = client.begin()
        client.send()
        await client.until(lambda: client.events["WindowUpdated"] > 0)
        sent = 0
        for stream_id in [first, *(client.begin() for _ in range(30))]:
            while room := min(client.h2.local_flow_control_window(stream_id), 16_384):
                client.h2.send_data(stream_id, b"x" * room)
                sent += room
            client.send()
            assert stream_id != first or sent == 65_535
        assert sent == 1_048_576
        await wait_until(lambda: len(calls.streams) == 31)
        calls.go_on.set()
        # Each is answered early. Its body is dropped, and the connection's window opens for the next.
        for stream_id in list(client.answers):
            assert (await client.answer(stream_id)).body == b"done"
        await client.until(lambda: client.h2.outbound_flow_control_window > 500_000)


async def test_an_early_answer_resets_its_stream_without_an_error_and_opens_the_window_again():
    async def serve(stream: Stream) -> None:
        await stream.respond(Response(413, TEXT, b"too large"))

    async with serve_http2(serve) as server, connect_http2(server) as client:
        for _ in range(40):
            stream_id = client.begin(("content-length", "10000000"))
            client.h2.send_data(stream_id, b"x" * 16_384)
            client.send()
            answer = await client.answer(stream_id)
            await client.until(lambda answer=answer: answer.reset is not None)
            assert (answer.status, answer.body, answer.reset) == (413, b"too large", ErrorCodes.NO_ERROR)
            # This was on its way when the answer arrived.
            client.writer.write(raw_frame(0, 0, stream_id, b"x" * 16_384))
        await client.request()
        assert not client.has_closed


async def test_early_answers_cost_their_clients_nothing():
    async def serve(stream: Stream) -> None:
        await stream.respond(Response(429, TEXT))

    async with serve_http2(serve) as server, connect_http2(server) as client:
        for _ in range(1_300):
            stream_id = client.begin()
            client.send()
            assert (await client.answer(stream_id)).status == 429
            # httpx sends this after a body.
            client.writer.write(raw_frame(0, 0, stream_id, b"x" * 8_000) + raw_frame(0, 1, stream_id))
        assert (await client.request()).status == 429


async def test_a_wait_for_a_body_ends_with_more_of_it_or_its_time():
    found: list[bool] = []
    passed = asyncio.Event()

    async def serve(stream: Stream) -> None:
        await stream.wait_for_body(0)
        await stream.wait_for_body(0 if stream.head.headers.get("x-late") else 4 * BOUND_S)
        found.append(stream.has_whole_body)
        passed.set()
        await echo_body(stream)

    async with serve_http2(serve) as server, connect_http2(server) as client:
        for extra in ((), (("x-late", "1"),), (("expect", "100-continue"),)):
            passed.clear()
            stream_id = client.begin(*extra)
            client.send()
            if extra:
                await asyncio.wait_for(passed.wait(), BOUND_S)
            client.h2.send_data(stream_id, b"body", end_stream=True)
            client.send()
            assert (await client.answer(stream_id)).body == b"body"
    assert found == [True, False, False]


async def test_a_refused_body_is_not_read_unless_it_is_whole():
    async def serve(stream: Stream) -> None:
        stream.refuse_body(Refusal("request_timeout", "late"))
        try:
            await echo_body(stream)
        except Refusal as refusal:
            await stream.respond(Response(408, TEXT, refusal.code.encode()))

    async with serve_http2(serve, eager=False) as server, connect_http2(server) as client:
        assert (await client.request(b"body")).body == b"body"
        stream_id = client.begin()
        client.send()
        answer = await client.answer(stream_id)
        assert (answer.status, answer.body) == (408, b"request_timeout")


async def test_the_windows_of_a_refused_body_open_again():
    refused, received = asyncio.Event(), asyncio.Event()

    async def serve(stream: Stream) -> None:
        stream.refuse_body(Refusal("request_timeout", "late"))
        refused.set()
        await received.wait()
        await stream.respond(Response(408, TEXT))

    async with serve_http2(serve) as server, connect_http2(server) as client:
        stream_id = client.begin()
        client.send()
        await refused.wait()
        client.h2.send_data(stream_id, b"x" * 10_000)
        client.send()
        [stream] = server.connection._streams
        assert isinstance(stream, Http2Stream)
        await wait_until(lambda: stream._received_bytes == 10_000)
        used = server.connection.used_window_bytes
        received.set()
        await client.answer(stream_id)
        assert used == (0, 0)


async def test_continue_is_sent_when_the_call_reads_the_body():
    async with serve_http2(echo_body) as server, connect_http2(server) as client:
        stream_id = client.begin(("expect", "100-continue"))
        client.send()
        await client.until(lambda: client.events["InformationalResponseReceived"] == 1)
        client.h2.send_data(stream_id, b"body", end_stream=True)
        client.send()
        assert (await client.answer(stream_id)).body == b"body"
        # A client that sends its body at once gets no 100.
        await client.request(b"body", ("expect", "100-continue"))
        assert client.events["InformationalResponseReceived"] == 1


@pytest.mark.parametrize("body", [b"four", b"five!five!", b""])
async def test_a_body_with_a_wrong_length_is_a_bad_request_of_its_stream_only(body: bytes):
    codes = []

    async def serve(stream: Stream) -> None:
        try:
            await echo_body(stream)
        except Refusal as refusal:
            codes.append(refusal.code)
            await stream.respond(Response(400, TEXT))

    async with serve_http2(serve) as server, connect_http2(server) as client:
        answer = await client.request(body, ("content-length", "5"))
        assert (answer.status, codes) == (400, ["bad_request"])
        assert (await client.request(b"fives", ("content-length", "5"))).body == b"fives"


async def test_trailers_are_ignored():
    async with serve_http2(echo_body) as server, connect_http2(server) as client:
        stream_id = client.begin()
        client.h2.send_data(stream_id, b"body")
        client.h2.send_headers(stream_id, [("authorization", "Bearer x")], end_stream=True)
        client.send()
        assert (await client.answer(stream_id)).body == b"body"
