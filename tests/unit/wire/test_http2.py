"""HTTP/2 connections on real sockets: requests, answers, clients that leave, and the end of connections."""

import asyncio
import re
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from rig.bounds import BOUND_S
from rig.http2 import (
    REQUEST,
    block,
    connect_http2,
    raw_frame,
    read_goaway,
    read_rest,
    replace_field,
    serve_http2,
)
from rig.wire import wire
from rig.wire_calls import TEXT, HeldCalls, echo_body, read_body, wait_until

from addon.text.http_heads import Response, ResponseHead
from addon.wire.stream import ClientLeft, Stream

# Requests and answers.


async def test_a_request_is_read_and_answered():
    seen = []

    async def serve(stream: Stream) -> None:
        seen.append(stream)
        await echo_body(stream)

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
    async with serve_http2(echo_body, eager=eager) as server, connect_http2(server) as client:
        numbers = [client.begin() for _ in range(50)]
        for number in numbers:
            client.h2.send_data(number, b"%d" % number, end_stream=True)
        client.send()
        for number in numbers:
            assert (await client.answer(number)).body == b"%d" % number
        assert server.connection.stream_count == 0


MALFORMED = {
    "no path": replace_field(":path", None),
    "an empty path": replace_field(":path", ""),
    "a path of another form": replace_field(":path", "v1"),
    "a fragment": replace_field(":path", "/v1#x"),
    "a blank in the path": replace_field(":path", "/v1 x"),
    "a high byte in the path": replace_field(":path", "/\xe9"),
    "no method": replace_field(":method", None),
    "a method with a blank": replace_field(":method", "PO ST"),
    "no scheme": replace_field(":scheme", None),
    "another scheme": replace_field(":scheme", "ftp"),
    "no authority": replace_field(":authority", None),
    "a user in the authority": replace_field(":authority", "a@b"),
    "an empty authority": replace_field(":authority", ""),
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
        await echo_body(stream)

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


async def test_cookies_are_joined():
    heads = []

    async def serve(stream: Stream) -> None:
        heads.append(stream.head)
        await echo_body(stream)

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


# Clients that leave, and the end of connections.


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
