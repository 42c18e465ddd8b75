"""HTTP/2 connections on real sockets: requests, answers, clients that read slowly or leave, and floods."""

import asyncio
import logging
import re
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from h2.settings import SettingCodes, Settings
from hpack import Decoder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rig.bounds import BOUND_S
from rig.http2 import (
    REQUEST,
    Client,
    block,
    connect_http2,
    head_frame,
    raw_frame,
    serve_http2,
)
from rig.wire import wire

from addon.text.http2_heads import encode_literals, encode_response_fields
from addon.text.http_heads import Headers, Response, ResponseHead
from addon.wire.http2 import MAX_CALLS
from addon.wire.http2_frames import PREFACE
from addon.wire.http2_library import MAX_STREAMS
from addon.wire.stream import ClientLeft, Stream
from policies.refusal import Refusal

ENHANCE_YOUR_CALM, NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR = 11, 0, 1, 2
REFUSED_STREAM, FRAME_SIZE_ERROR, FLOW_CONTROL_ERROR = 7, 6, 3
OK = Headers([("content-type", "text/plain")])


async def read_body(stream: Stream) -> bytes:
    pieces = []
    while piece := await stream.read():
        pieces.append(piece)
    return b"".join(pieces)


async def echo(stream: Stream) -> None:
    await stream.respond(Response(200, OK, await read_body(stream)))


class Calls:
    """Calls that wait for the test, with the end of each."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.left: list[Stream] = []
        self.go_on = asyncio.Event()
        self.finish = asyncio.Event()

    async def serve(self, stream: Stream) -> None:
        self.streams.append(stream)
        try:
            with stream.while_connected():
                await self.go_on.wait()
            await stream.respond(Response(200, OK, b"done"))
        except ClientLeft:
            self.left.append(stream)
            await self.finish.wait()
            raise


async def settled(condition) -> None:
    async with asyncio.timeout(BOUND_S):
        while not condition():  # noqa: ASYNC110  (no event for the states of several objects)
            await asyncio.sleep(0.005)


# Requests and answers.


async def test_a_request_is_read_and_answered():
    seen = []

    async def serve(stream: Stream) -> None:
        seen.append(stream)
        await echo(stream)

    async with serve_http2(serve) as server, connect_http2(server) as client:
        answer = await client.request(
            b"hello", ("content-length", "5"), ("x-name", "caf\xe9"), ("x-line", "a\x85b \t\xa0c")
        )
        assert (answer.status, answer.body) == (200, b"hello")
        assert answer.headers["content-length"] == "5"
        assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} .* GMT", answer.headers["date"])
        [stream] = seen
        head = stream.head
        assert (head.method, head.target, head.version, head.authority) == (
            "POST",
            "/v1/chat/completions",
            "2",
            "gateway.test",
        )
        assert head.headers.get("host") == "gateway.test"
        assert head.headers.get("x-name", "").encode("latin-1").decode() == "caf\xe9"
        assert head.headers.get("x-line", "").encode("latin-1").decode() == "a\x85b \t\xa0c"
        assert stream.peer[0] == "127.0.0.1"
        assert stream.is_answered and stream.is_ended and not stream.is_client_gone


@pytest.mark.parametrize("eager", [True, False])
async def test_many_requests_share_a_connection(eager: bool):
    async with serve_http2(echo, eager=eager) as server, connect_http2(server) as client:
        numbers = [client.begin() for _ in range(50)]
        for number in numbers:
            client.h2.send_data(number, b"%d" % number, end_stream=True)
        client.send()
        for number in numbers:
            assert (await client.answer(number)).body == b"%d" % number
        assert server.connection.stream_count == 0


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


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_an_answer_without_a_body_has_none(method: str, status: int):
    async def serve(stream: Stream) -> None:
        await stream.respond(Response(status, OK, b"four"))

    async with serve_http2(serve) as server, connect_http2(server) as client:
        answer = await client.request(fields=((":method", method), *REQUEST[1:]))
        assert (answer.status, answer.body, answer.has_ended) == (status, b"", True)
        assert answer.headers.get("content-length") == ("4" if status == 200 else None)


async def test_a_large_body_arrives_in_joined_pieces():
    body, pieces = bytes(range(256)) * 4_096 * 30, []

    async def serve(stream: Stream) -> None:
        while piece := await stream.read():
            pieces.append(piece)
        await stream.respond(Response(200, OK, b"".join(pieces)))

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
        await stream.respond(Response(200, OK))

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
    calls = Calls()
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
        await settled(lambda: len(calls.streams) == 31)
        calls.go_on.set()
        # Each is answered early. Its body is dropped, and the connection's window opens for the next.
        for stream_id in list(client.answers):
            assert (await client.answer(stream_id)).body == b"done"
        await client.until(lambda: client.h2.outbound_flow_control_window > 500_000)


async def test_an_early_answer_resets_its_stream_without_an_error_and_opens_the_window_again():
    async def serve(stream: Stream) -> None:
        await stream.respond(Response(413, OK, b"too large"))

    async with serve_http2(serve) as server, connect_http2(server) as client:
        for _ in range(40):
            stream_id = client.begin(("content-length", "10000000"))
            client.h2.send_data(stream_id, b"x" * 16_384)
            client.send()
            answer = await client.answer(stream_id)
            await client.until(lambda answer=answer: answer.reset is not None)
            assert (answer.status, answer.body, answer.reset) == (413, b"too large", NO_ERROR)
            # This was on its way when the answer arrived.
            client.writer.write(raw_frame(0, 0, stream_id, b"x" * 16_384))
        await client.request()
        assert not client.has_closed


async def test_early_answers_cost_their_clients_nothing():
    async def serve(stream: Stream) -> None:
        await stream.respond(Response(429, OK))

    async with serve_http2(serve) as server, connect_http2(server) as client:
        for _ in range(1_300):
            stream_id = client.begin()
            client.send()
            assert (await client.answer(stream_id)).status == 429
            # httpx sends this after a body.
            client.writer.write(raw_frame(0, 0, stream_id, b"x" * 8_000) + raw_frame(0, 1, stream_id))
        assert (await client.request()).status == 429


async def test_continue_is_sent_when_the_call_reads_the_body():
    async with serve_http2(echo) as server, connect_http2(server) as client:
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
            await echo(stream)
        except Refusal as refusal:
            codes.append(refusal.code)
            await stream.respond(Response(400, OK))

    async with serve_http2(serve) as server, connect_http2(server) as client:
        answer = await client.request(body, ("content-length", "5"))
        assert (answer.status, codes) == (400, ["bad_request"])
        assert (await client.request(b"fives", ("content-length", "5"))).body == b"fives"


async def test_trailers_are_ignored():
    async with serve_http2(echo) as server, connect_http2(server) as client:
        stream_id = client.begin()
        client.h2.send_data(stream_id, b"body")
        client.h2.send_headers(stream_id, [("authorization", "Bearer x")], end_stream=True)
        client.send()
        assert (await client.answer(stream_id)).body == b"body"


def replaced(name: str, value: str | None) -> tuple[tuple[str, str], ...]:
    kept = [(one, old if one != name else value) for one, old in REQUEST]
    return tuple((one, text) for one, text in kept if text is not None)


MALFORMED = {
    "no path": replaced(":path", None),
    "an empty path": replaced(":path", ""),
    "a path of another form": replaced(":path", "v1"),
    "a fragment": replaced(":path", "/v1#x"),
    "a blank in the path": replaced(":path", "/v1 x"),
    "a high byte in the path": replaced(":path", "/\xe9"),
    "no method": replaced(":method", None),
    "a method with a blank": replaced(":method", "PO ST"),
    "no scheme": replaced(":scheme", None),
    "another scheme": replaced(":scheme", "ftp"),
    "no authority": replaced(":authority", None),
    "a user in the authority": replaced(":authority", "a@b"),
    "an empty authority": replaced(":authority", ""),
    "another host": (*REQUEST, ("host", "other.test")),
    "two hosts": (*REQUEST, ("host", "gateway.test"), ("host", "gateway.test")),
    "a pseudo-header twice": (*REQUEST, (":path", "/")),
    "a pseudo-header late": (*REQUEST[:3], ("a", "b"), REQUEST[3]),
    "an unknown pseudo-header": (*REQUEST, (":protocol", "websocket")),
    "upper case": (*REQUEST, ("X-A", "b")),
    "a blank in a name": (*REQUEST, ("x a", "b")),
    "an empty name": (*REQUEST, ("", "b")),
    "connection": (*REQUEST, ("connection", "close")),
    "transfer-encoding": (*REQUEST, ("transfer-encoding", "chunked")),
    "upgrade": (*REQUEST, ("upgrade", "h2c")),
    "te": (*REQUEST, ("te", "gzip")),
    "two of te": (*REQUEST, ("te", "trailers"), ("te", "gzip")),
    "a line feed in a value": (*REQUEST, ("a", "b\nc")),
    "a field in a value": (*REQUEST, ("a", "b\nc\0d")),
    "a line in a value": (*REQUEST, ("a", "b\nc:d")),
    "a colon in a name": (*REQUEST, ("a:b", "c")),
    "a value in a name": (*REQUEST, ("a\0b", "c")),
    "a field in a name": (*REQUEST, ("a\0b\nc", "d")),
    "a blank after a value": (*REQUEST, ("a", "b ")),
    "a DEL in a value": (*REQUEST, ("a", "b\x7f")),
    "a NUL in a value": (*REQUEST, ("a", "b\0c")),
    "a blank before a value": (*REQUEST, ("a", " b")),
    "two lengths": (*REQUEST, ("content-length", "1"), ("content-length", "1")),
    "a length with zeros": (*REQUEST, ("content-length", "01")),
}
LARGE = {
    "fields": (*REQUEST, *((f"x-{number}", "y" * 1_000) for number in range(64))),
    "path": (*(field for field in REQUEST if field[0] != ":path"), (":path", "/" + "a" * 66_560)),
    "authority": (*(field for field in REQUEST if field[0] != ":authority"), (":authority", "a" * 66_560)),
    "path and fields": (
        *(field for field in REQUEST if field[0] != ":path"),
        (":path", "/" + "a" * 33_000),
        ("x", "a" * 33_000),
    ),
}
"""Heads that are larger than 64 KiB; Huffman coding makes them smaller on the wire."""


async def test_a_malformed_request_is_refused_and_the_connection_goes_on():
    served = []

    async def serve(stream: Stream) -> None:
        served.append(stream)
        await echo(stream)

    async with serve_http2(serve) as server, connect_http2(server) as client:
        for name, fields in MALFORMED.items():
            answer = await client.request(
                fields=[(n.encode("latin-1"), v.encode("latin-1")) for n, v in fields]
            )
            assert (name, answer.status) == (name, 400)
            assert b"bad_request" in answer.body
        for name, head in LARGE.items():
            large = await client.request(fields=head)
            assert (name, large.status) == (name, 431)
            assert b"request_header_fields_too_large" in large.body
        assert not served
        connect = await client.request(fields=((":method", "CONNECT"), (":authority", "other.test:443")))
        assert connect.status == 200  # whose method the call sees, and refuses
        assert (served[0].head.method, served[0].head.target) == ("CONNECT", "other.test:443")
        assert (await client.request(b"fine", ("te", "trailers"), ("host", "GATEWAY.test"))).body == b"fine"


@pytest.mark.parametrize(
    "field", [("a", "b\nc"), ("a", "b\0c"), ("a:b", "c"), ("A", "b"), ("a", "b\nc\0d"), ("", "b")]
)
def test_no_field_of_an_answer_can_be_read_as_two(field: tuple[str, str]):
    with pytest.raises(ValueError):
        encode_response_fields(200, [field])


@given(
    st.lists(st.tuples(st.binary(max_size=300), st.binary(max_size=40_000)), max_size=5),
    st.sampled_from(["200", "404"]),
)
def test_every_decoder_can_read_our_heads(fields: list[tuple[bytes, bytes]], status: str):
    sent = [(b":status", status.encode()), *fields]
    assert [
        tuple(one) for one in Decoder(max_header_list_size=2**20).decode(encode_literals(sent), raw=True)
    ] == sent


async def test_cookies_are_joined():
    heads = []

    async def serve(stream: Stream) -> None:
        heads.append(stream.head)
        await echo(stream)

    async with serve_http2(serve) as server, connect_http2(server) as client:
        await client.request(b"", ("cookie", "a=1"), ("cookie", "b=2"))
        assert heads[0].headers.get_all("cookie") == ["a=1; b=2"]


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
        stream.begin(ResponseHead(200, OK))
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


async def test_both_ways_detect_a_client_that_leaves_and_keep_nothing(kind: dict[str, Any]):
    calls = Calls()
    calls.finish.set()
    async with wire(calls.serve, **kind) as served:
        async with connect_http2(served) as client:
            numbers = [client.begin() for _ in range(3)]
            client.send()
            await settled(lambda: len(calls.streams) == 3)
            client.h2.reset_stream(numbers[0])
            client.send()
            await settled(lambda: len(calls.left) == 1)
        await served.wait_until_gone()
        assert len(calls.left) == 3


async def test_both_ways_drain(kind: dict[str, Any]):
    calls = Calls()
    async with wire(calls.serve, **kind) as served, connect_http2(served) as client:
        client.begin(ends=True)
        client.send()
        await settled(lambda: len(calls.streams) == 1)
        served.host.clients.close_when_idle()
        calls.go_on.set()
        assert b"done" in await rest_of(client)
        await served.wait_until_gone()


async def test_both_ways_end_a_flood_with_goaway(kind: dict[str, Any]):
    async with wire(**kind) as served, connect_http2(served) as client:
        client.send(raw_frame(6, 0, 0, bytes(8)) * 1_100)
        await client.wait_until_closed()
        assert client.goaway == ENHANCE_YOUR_CALM
        await served.wait_until_gone()


async def test_both_ways_stop_a_call_whose_client_does_not_read(kind: dict[str, Any]):
    sent = 0

    async def serve(stream: Stream) -> None:
        nonlocal sent
        stream.begin(ResponseHead(200, OK))
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


# Clients that read slowly.


async def test_a_client_without_a_window_makes_the_call_wait():
    progress = []

    async def serve(stream: Stream) -> None:
        stream.begin(ResponseHead(200, OK))
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
        stream.begin(ResponseHead(200, OK))
        await stream.send(b"x" * 10_000)
        sent.set()
        await go_on.wait()
        await stream.send(b"y" * 10_000) if stream.head.path == "/more" else await stream.end()
        if not stream.is_ended:
            await stream.end()

    async with serve_http2(serve) as server, connect_http2(server, acks=False) as client:
        plain = client.begin(ends=True)
        more = client.begin(fields=replaced(":path", "/more"), ends=True)
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
        stream.begin(ResponseHead(200, OK))
        while sent < 50_000_000:
            await stream.send(b"x" * 16_384)
            sent += 16_384
        await stream.end()

    window = {SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1}
    async with serve_http2(serve) as server, connect_http2(server, window) as client:
        client.h2.increment_flow_control_window(2**31 - 1 - 65_535)
        stream_id = client.begin(ends=True)
        client.send()
        await settled(lambda: bool(server.connections) and server.connection._output.is_full)
        await asyncio.sleep(0.05)
        assert server.transports[0].buffered_bytes < 65_536 * 2 + 20_000
        assert sent < 20_000_000  # most of it in the buffers of the two sockets
        while client.answers[stream_id].body == b"" or sent < 50_000_000:
            await client.take()
            client.answers[stream_id].body = bytearray(b"x")
        await client.answer(stream_id)


# Clients that leave, and the end of connections.


async def test_the_client_of_a_request_that_is_reset_in_the_same_read_is_gone_before_the_call_starts():
    begun, passed = [], []

    async def serve(stream: Stream) -> None:
        begun.append(stream.is_client_gone)
        with stream.while_connected():
            passed.append(stream)
        await echo(stream)

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
    calls = Calls()
    async with serve_http2(calls.serve) as server, connect_http2(server) as client:
        stream_id = client.begin(ends=True)
        client.send()
        await settled(lambda: len(calls.streams) == 1)
        client.h2.reset_stream(stream_id)
        client.send()
        await settled(lambda: len(calls.left) == 1)
        assert server.connection.stream_count == 1
        calls.finish.set()
        await server.connection.wait_for_tasks()
        calls.go_on.set()
        assert (await client.request()).body == b"done"


@pytest.mark.parametrize("how", ["half", "whole", "reset"])
async def test_the_client_of_every_call_is_gone_with_its_connection(how: str):
    calls = Calls()
    async with serve_http2(calls.serve) as server, connect_http2(server) as client:
        for _ in range(3):
            client.begin()
        client.send()
        await settled(lambda: len(calls.streams) == 3)
        if how == "half":
            client.writer.write_eof()
        elif how == "whole":
            client.writer.close()
        else:
            client.writer.transport.abort()
        await settled(lambda: len(calls.left) == 3)
        calls.finish.set()
        await server.connection.wait_for_tasks()
        await settled(lambda: server.transports[0].is_closing)


async def test_a_waiting_reader_and_a_waiting_writer_end():
    left = []

    async def serve(stream: Stream) -> None:
        try:
            if stream.head.path == "/read":
                await stream.read()
            else:
                await stream.respond(Response(200, OK, b"x" * 100))
        except ClientLeft:
            left.append(stream.head.path)

    window = {SettingCodes.INITIAL_WINDOW_SIZE: 10}
    async with serve_http2(serve) as server, connect_http2(server, window, acks=False) as client:
        reads = client.begin(fields=replaced(":path", "/read"))
        writes = client.begin(fields=replaced(":path", "/write"), ends=True)
        client.send()
        await client.until(lambda: client.answers[writes].body == b"x" * 10)
        client.h2.reset_stream(reads)
        client.h2.reset_stream(writes)
        client.send()
        await settled(lambda: sorted(left) == ["/read", "/write"])
        await server.connection.wait_for_tasks()


async def test_an_exception_of_a_call_is_a_500_or_a_reset(caplog: pytest.LogCaptureFixture):
    async def serve(stream: Stream) -> None:
        if stream.head.path == "/late":
            stream.begin(ResponseHead(200, OK))
            await stream.send(b"some")
        raise ZeroDivisionError

    async with serve_http2(serve) as server, connect_http2(server) as client:
        early = await client.request()
        assert (early.status, early.has_ended) == (500, True)
        late = await client.request(fields=replaced(":path", "/late"))
        assert (late.body, late.reset) == (b"some", INTERNAL_ERROR)
        assert (await client.request()).status == 500


async def test_a_call_may_abort_its_answer():
    async def serve(stream: Stream) -> None:
        stream.begin(ResponseHead(200, OK))
        await stream.send(b"some")
        stream.abort()

    async with serve_http2(serve) as server, connect_http2(server) as client:
        answer = await client.request()
        assert (answer.body, answer.reset) == (b"some", INTERNAL_ERROR)


async def test_a_drained_connection_finishes_its_streams_and_closes():
    calls = Calls()
    async with serve_http2(calls.serve) as server, connect_http2(server) as client:
        stream_id = client.begin(ends=True)
        client.send()
        await settled(lambda: len(calls.streams) == 1)
        server.connection.close_when_idle()
        client.send(raw_frame(1, 0x5, 3, block(*REQUEST)))
        found = await goaway_seen(client, b"")
        assert found == {"last": stream_id, "goaway": NO_ERROR}
        calls.go_on.set()
        assert b"done" in await rest_of(client)
        assert len(calls.streams) == 1


async def test_a_request_on_its_way_is_served_when_the_end_is_announced():
    async with serve_http2(echo) as server, connect_http2(server) as client:
        await client.request(b"x")
        server.connection.announce_end()
        server.connection.announce_end()
        found = await goaway_seen(client, raw_frame(1, 0x5, 3, block(*REQUEST)))
        assert found == {"last": 2**31 - 1, "goaway": NO_ERROR}
        async with asyncio.timeout(BOUND_S):
            await client.reader.readuntil(b"\x00\x00\x00\x03")  # the answer on stream 3
        server.connection.close_when_idle()
        assert (await goaway_seen(client, b""))["last"] == 3
        await rest_of(client)


async def goaway_seen(client: Client, then: bytes) -> dict[str, int]:
    """Read up to a GOAWAY without the library, which would stop there. Send ``then``."""
    data = b""
    while not (found := re.search(rb"\x00\x00\x08\x07\x00\x00\x00\x00\x00(.{4})(.{4})", data, re.DOTALL)):
        piece = await client.reader.read(65_536)
        assert piece
        data += piece
    client.writer.write(then)
    return {"last": int.from_bytes(found[1]), "goaway": int.from_bytes(found[2])}


async def rest_of(client: Client) -> bytes:
    data = b""
    with suppress(ConnectionError):
        async with asyncio.timeout(BOUND_S):
            while piece := await client.reader.read(65_536):
                data += piece
    return data


async def test_a_client_on_the_h2_library_gets_its_answers_from_a_drained_connection():
    calls = Calls()
    async with serve_http2(calls.serve) as server, connect_http2(server) as client:
        numbers = [client.begin(ends=True) for _ in range(3)]
        client.send()
        await settled(lambda: len(calls.streams) == 3)
        server.connection.announce_end()
        numbers.append(client.begin(ends=True))
        client.send()
        await settled(lambda: len(calls.streams) == 4)
        server.connection.close_when_idle()
        calls.go_on.set()
        await client.wait_until_closed()
        assert [client.answers[one].body for one in numbers] == [b"done"] * 4
        assert client.goaway == NO_ERROR


async def test_a_drained_connection_without_streams_closes_at_once():
    async with serve_http2(echo) as server, connect_http2(server) as client:
        await client.request(b"x")
        server.connection.close_when_idle()
        await client.wait_until_closed()
        assert client.goaway == NO_ERROR


async def test_a_client_that_goes_away_gets_its_answers():
    calls = Calls()
    async with serve_http2(calls.serve) as server, connect_http2(server) as client:
        client.begin(ends=True)
        client.send(raw_frame(7, 0, 0, bytes(8)))
        await settled(lambda: len(calls.streams) == 1 and server.connection.is_draining)
        calls.go_on.set()
        assert (await client.answer(1)).body == b"done"
        await client.wait_until_closed()


@pytest.mark.parametrize(
    ("bounds", "requests"),
    [({"head_timeout_s": 0.05}, 0), ({"idle_timeout_s": 0.05}, 1)],
    ids=["silent", "idle"],
)
async def test_a_connection_without_streams_is_closed(bounds: dict[str, float], requests: int):
    async with serve_http2(echo, **bounds) as server, connect_http2(server) as client:
        for _ in range(requests):
            await client.request(b"x")
        await client.wait_until_closed()
        assert client.goaway == NO_ERROR


@pytest.mark.parametrize(
    "begun", [b"", PREFACE[:10], raw_frame(1, 0, 1, b"", length=100), raw_frame(1, 0, 1, b"\x82")]
)
async def test_a_head_that_does_not_end_closes_the_connection(begun: bytes):
    calls = Calls()
    async with serve_http2(calls.serve, head_timeout_s=0.05) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(begun if begun in PREFACE else PREFACE + raw_frame(4, 0, 0) + begun)
        async with asyncio.timeout(BOUND_S):
            while await reader.read(65_536):
                pass
        writer.close()


# Floods. Each ends the connection at its budget, without a traceback in the log.

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
            await stream.respond(Response(413, OK))
        else:
            await echo(stream)

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
        found = await goaway_seen(client, b"")
        await rest_of(client)
        client.has_closed = True
        # The library itself ends a header block of more than 64 frames.
        assert found["goaway"] == (PROTOCOL_ERROR if name == "empty continuation" else ENHANCE_YOUR_CALM)
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
    calls = Calls()
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
        assert client.goaway == ENHANCE_YOUR_CALM
        assert len(calls.streams) <= MAX_CALLS
        calls.finish.set()


async def test_streams_that_the_client_makes_us_reset_count_as_resets():
    calls = Calls()
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
        assert client.goaway == ENHANCE_YOUR_CALM
        assert taken() < 4_500
        assert len(calls.streams) <= MAX_CALLS
        calls.finish.set()


async def test_a_window_that_opens_byte_by_byte_ends_the_connection():
    async def serve(stream: Stream) -> None:
        await stream.respond(Response(200, OK, b"x" * 1_000_000))

    window = {SettingCodes.INITIAL_WINDOW_SIZE: 0}
    async with serve_http2(serve) as server, connect_http2(server, window, acks=False) as client:
        client.begin(ends=True)
        client.send()
        taken = counted(server)
        sending = asyncio.create_task(flood(client, raw_frame(8, 0, 1, (1).to_bytes(4))))
        found = await goaway_seen(client, b"")
        await rest_of(client)
        client.has_closed = True
        await sending
        assert found["goaway"] == ENHANCE_YOUR_CALM
        assert taken() <= 5_000


async def test_an_http2_client_that_never_reads_is_cut_off():
    calls = Calls()
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


async def test_a_long_connection_keeps_little_state():
    async with serve_http2(echo) as server, connect_http2(server) as client:
        for _ in range(1_050):
            await client.request(b"x")
        h2 = server.connection._h2
        assert len(h2.streams) <= 2
        assert len(h2._closed_streams) <= 1_000
        assert not h2.encoder.header_table.dynamic_entries
        assert not server.connection._open and not server.connection._streams


async def test_another_implementation_of_http2_is_served():
    async with (
        serve_http2(echo) as server,
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


async def test_streams_beyond_the_advertised_limit_are_refused():
    calls = Calls()
    async with serve_http2(calls.serve) as server, connect_http2(server) as client:
        await client.until(lambda: client.h2.remote_settings.max_concurrent_streams == MAX_STREAMS)
        client.h2.remote_settings = Settings(client=False)
        numbers = [client.begin(ends=True) for _ in range(MAX_STREAMS + 5)]
        client.send()
        for stream_id in numbers[MAX_STREAMS:]:
            assert (await client.answer(stream_id)).reset == REFUSED_STREAM
        calls.go_on.set()
        for stream_id in numbers[:MAX_STREAMS]:
            assert (await client.answer(stream_id)).body == b"done"
        assert len(calls.streams) == MAX_STREAMS


BROKEN = {
    "no preface": (b"GET / HTTP/1.1\r\n\r\n", PROTOCOL_ERROR),
    "a frame of 16 MB": (PREFACE + raw_frame(0, 0, 1, b"", length=0xFFFFFF), FRAME_SIZE_ERROR),
    "data of no stream": (PREFACE + raw_frame(0, 0, 1, b"x"), PROTOCOL_ERROR),
    "another frame in a header block": (
        PREFACE + head_frame(1, b"\x82") + raw_frame(6, 0, 0, bytes(8)),
        PROTOCOL_ERROR,
    ),
    "goaway in a header block": (
        PREFACE + head_frame(1, b"\x82") + raw_frame(7, 0, 0, bytes(8)),
        PROTOCOL_ERROR,
    ),
    "a block that does not decode": (
        PREFACE + raw_frame(1, 5, 1, b"\xff\xff\xff\xff\xff\xff"),
        PROTOCOL_ERROR,
    ),
    "a block that grows": (
        PREFACE + raw_frame(1, 5, 1, b"\x40\x01a\x7f\x81\x1e" + b"x" * 4_000 + b"\xbe" * 10_000),
        ENHANCE_YOUR_CALM,
    ),
    "a push": (PREFACE + raw_frame(5, 4, 1, bytes(4)), PROTOCOL_ERROR),
    "a window of nothing more": (PREFACE + raw_frame(8, 0, 0, bytes(4)), PROTOCOL_ERROR),
    "a window too large": (PREFACE + raw_frame(8, 0, 0, b"\x7f\xff\xff\xff"), FLOW_CONTROL_ERROR),
    "more than the window": (
        PREFACE + OPEN + b"".join(raw_frame(0, 0, 1, b"x" * 16_384) for _ in range(5)),
        FLOW_CONTROL_ERROR,
    ),
    "a stream number of ours": (PREFACE + head_frame(2, block(*REQUEST), "END_HEADERS"), PROTOCOL_ERROR),
    "too much padding": (PREFACE + OPEN + raw_frame(0, 8, 1, b"\xff"), PROTOCOL_ERROR),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_protocol_ends_with_goaway_and_no_traceback(
    name: str, caplog: pytest.LogCaptureFixture
):
    data, code = BROKEN[name]
    calls = Calls()
    calls.finish.set()
    async with serve_http2(calls.serve) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        client = Client(reader, writer, acks=True)
        writer.write(data)
        found = await goaway_seen(client, b"")
        assert found["goaway"] == code
        await rest_of(client)
        writer.close()
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_settings_of_a_client_do_not_grow_our_memory():
    async with serve_http2(echo) as server, connect_http2(server) as client:
        for first in range(100, 2_000, 32):
            pairs = b"".join(number.to_bytes(2) + bytes(4) for number in range(first, first + 32))
            client.send(raw_frame(4, 0, 0, pairs + b""))
        client.h2.decoder.max_allowed_table_size = 2**31
        client.send(raw_frame(4, 0, 0, (1).to_bytes(2) + (2**31).to_bytes(4)))
        await client.request(b"x")
        h2 = server.connection._h2
        assert len(h2.remote_settings) < 20
        assert h2.encoder.header_table_size == 4_096


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
        async with serve_http2(echo) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            await settled(lambda: bool(server.connections))
            data = PREFACE + b"".join(raw_frame(*frame) for frame in frames)
            for start in range(0, len(data), cut):
                server.connection.data_received(data[start : start + cut])
                await asyncio.sleep(0)
            writer.close()
            await writer.wait_closed()

    asyncio.run(run())
