"""HTTP/2 connections on real sockets: requests and answers."""

import re

import pytest
from rig.http2 import REQUEST, connect_http2, replace_field
from rig.http2_server import serve_http2
from rig.wire_calls import echo_body

from addon.wire.stream import Stream


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
