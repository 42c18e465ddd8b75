"""The gateway is no open proxy: no request makes it connect to a server that is not a provider."""

import json
import socket
from collections.abc import Iterator

import pytest
from rig.gateway import Gateway
from rig.raw_clients import RawClient, request_bytes
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
BODY = json.dumps({"messages": [{"role": "user", "content": "hello"}]}).encode()


@pytest.fixture
def elsewhere() -> Iterator[socket.socket]:
    """Another server on this machine. The gateway must never connect to it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def _send(gateway: Gateway, raw: bytes) -> RawClient:
    client = RawClient(gateway.url)
    client.send(raw)
    return client


def _has_no_connection(listening: socket.socket) -> bool:
    try:
        listening.accept()
    except BlockingIOError:
        return True
    return False


def _headers(gateway: Gateway) -> list[tuple[str, str]]:
    return list(gateway.headers.items())


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_an_absolute_target_that_differs_from_host_is_refused_and_not_forwarded(
    gateway: Gateway, elsewhere: socket.socket, method: str
) -> None:
    port = elsewhere.getsockname()[1]
    target = f"http://127.0.0.1:{port}/v1/models"
    with _send(gateway, request_bytes(method, target, _headers(gateway))) as client:
        answer = client.read_answer()
    assert (answer.status, answer.json()["error"]["code"]) == (400, "bad_request")
    assert _has_no_connection(elsewhere)


@pytest.mark.parametrize("scheme", ["http", "HTTPS"])
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/models", 200), ("POST", CHAT, 200), ("GET", "/anything", 404), ("GET", "", 404)],
)
def test_only_the_path_of_an_absolute_target_is_used(
    gateway: Gateway,
    upstream: Upstream,
    elsewhere: socket.socket,
    scheme: str,
    method: str,
    path: str,
    status: int,
) -> None:
    host = f"127.0.0.1:{elsewhere.getsockname()[1]}"
    body = BODY if method == "POST" else b""
    with _send(
        gateway, request_bytes(method, f"{scheme}://{host}{path}", _headers(gateway), body, host)
    ) as client:
        assert client.read_answer().status == status
    assert [request.header("host") for request in upstream.requests] == [f"127.0.0.1:{upstream.port}"] * bool(
        body
    )
    assert _has_no_connection(elsewhere)


def test_connect_opens_no_tunnel(gateway: Gateway, elsewhere: socket.socket) -> None:
    port = elsewhere.getsockname()[1]
    raw = f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    with _send(gateway, raw) as client:
        answer = client.read_answer()
    assert (answer.status, answer.json()["error"]["code"]) == (405, "method_not_allowed")
    assert _has_no_connection(elsewhere)


def test_the_target_star_is_refused_for_each_method(gateway: Gateway) -> None:
    for method in ("OPTIONS", "GET", "POST"):
        with _send(gateway, request_bytes(method, "*", _headers(gateway))) as client:
            answer = client.read_answer()
        assert (answer.status, answer.json()["error"]["code"]) == (405, "method_not_allowed")


@pytest.mark.parametrize("host", ["mitm.it", "example.com", "127.0.0.1:1", "[::1]:9", "upstream.internal"])
def test_the_host_header_opens_no_other_page(gateway: Gateway, host: str) -> None:
    with _send(gateway, request_bytes("GET", "/", [], host=host)) as client:
        answer = client.read_answer()
    assert (answer.status, answer.json()["error"]["code"]) == (404, "not_found")


def test_a_call_is_served_under_any_host_and_goes_to_its_provider(
    gateway: Gateway, upstream: Upstream
) -> None:
    with _send(gateway, request_bytes("POST", CHAT, _headers(gateway), BODY, host="mitm.it")) as client:
        answer = client.read_answer()
    assert answer.status == 200
    assert upstream.last.header("host") == f"127.0.0.1:{upstream.port}"


@pytest.mark.parametrize(
    ("method", "target", "upgrade", "expected"),
    [
        ("GET", CHAT, "websocket", (405, "method_not_allowed")),
        ("GET", "/ws", "websocket", (404, "not_found")),
        ("GET", "/", "h2c", (404, "not_found")),
    ],
)
def test_an_upgrade_is_refused(
    gateway: Gateway, method: str, target: str, upgrade: str, expected: tuple[int, str]
) -> None:
    headers = [
        ("Connection", "Upgrade, HTTP2-Settings"),
        ("Upgrade", upgrade),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("HTTP2-Settings", "AAMAAABkAAQAAP__"),
    ]
    with _send(gateway, request_bytes(method, target, headers)) as client:
        answer = client.read_answer()
    assert (answer.status, answer.json()["error"]["code"]) == expected


def _with(gateway: Gateway, *lines: str, body: bytes = b"") -> bytes:
    auth = f"Authorization: Bearer {gateway.key}"
    head = [f"POST {CHAT} HTTP/1.1", "Host: x", auth, "Content-Type: application/json", *lines]
    return ("\r\n".join(head) + "\r\n\r\n").encode("latin-1") + body


SMUGGLING = {
    "length and chunked": (["Content-Length: 4", "Transfer-Encoding: chunked"], b"0\r\n\r\n"),
    "two lengths": (["Content-Length: 4", "Content-Length: 5"], b"{}  "),
    "a list of lengths": (["Content-Length: 2, 2"], b"{}"),
    "a signed length": (["Content-Length: +2"], b"{}"),
    "a hexadecimal length": (["Content-Length: 0x2"], b"{}"),
    "chunked twice": (["Transfer-Encoding: chunked, chunked"], b"0\r\n\r\n"),
    "chunked in two headers": (["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], b"0\r\n\r\n"),
    "an unknown coding": (["Transfer-Encoding: xchunked"], b"0\r\n\r\n"),
    "chunked behind a vertical tab": (["Transfer-Encoding: \x0bchunked"], b"0\r\n\r\n"),
    "chunked not last": (["Transfer-Encoding: chunked, gzip"], b"0\r\n\r\n"),
    "a space before the colon": (["Content-Length : 2"], b"{}"),
    "a folded header": (["X-A: b", " Content-Length: 2"], b"{}"),
    "a second host": (["Host: y"], b""),
    "a bare carriage return in a value": (["X-A: b\rContent-Length: 50"], b""),
    "a NUL in a value": (["X-A: b\0c"], b""),
    "a header name that is no token": (["X(A): b"], b""),
    "a broken chunk size": (["Transfer-Encoding: chunked"], b"zz\r\n{}\r\n0\r\n\r\n"),
    "a negative chunk size": (["Transfer-Encoding: chunked"], b"-2\r\n{}\r\n0\r\n\r\n"),
    "a chunk longer than it says": (["Transfer-Encoding: chunked"], b"1\r\n{}\r\n0\r\n\r\n"),
}


@pytest.mark.parametrize("name", SMUGGLING)
def test_a_smuggled_request_is_refused_and_the_connection_closed(
    gateway: Gateway, upstream: Upstream, name: str
) -> None:
    lines, body = SMUGGLING[name]
    hidden = request_bytes("GET", "/v1/models", [])
    with _send(gateway, _with(gateway, *lines, body=body + hidden)) as client:
        raw = client.read_to_close()
    assert raw.startswith(b"HTTP/1.1 400 "), raw
    assert raw.count(b"HTTP/1.1 ") == 1, "the hidden request was answered too"
    assert b'"code":"bad_request"' in raw.replace(b": ", b":")
    assert upstream.requests == []


@pytest.mark.parametrize(
    "line",
    [
        "GET /v1/models HTTP/2.0",
        "PRI * HTTP/2.0",
        "GET /v1/models",
        "GET  /v1/models  HTTP/1.1",
        "\x16\x03\x01",
        "GET /v1/models HTTP/9.9",
    ],
)
def test_bytes_that_are_not_http1_get_an_error_in_json(gateway: Gateway, line: str) -> None:
    with _send(gateway, f"{line}\r\nHost: x\r\n\r\n".encode("latin-1")) as client:
        raw = client.read_to_close()
    assert raw.startswith(b"HTTP/1.1 400 ")
    assert b'"bad_request"' in raw
    assert b"<html" not in raw


def test_http_1_0_is_answered_and_closed(gateway: Gateway, upstream: Upstream) -> None:
    raw = _with(gateway, f"Content-Length: {len(BODY)}", body=BODY).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    with _send(gateway, raw) as client:
        answer = client.read_answer()
        assert answer.status == 200
        assert answer.header("transfer-encoding") is None
        assert client.is_closed_by_peer()


def test_an_http_1_0_client_gets_a_stream_that_ends_with_the_connection(
    gateway: Gateway, upstream: Upstream
) -> None:
    body = json.dumps({"stream": True, "messages": [{"role": "user", "content": "hello"}]}).encode()
    raw = _with(gateway, f"Content-Length: {len(body)}", body=body).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    with _send(gateway, raw) as client:
        answer = client.read_answer()
    assert answer.header("transfer-encoding") is None
    assert answer.body.rstrip().endswith(b"data: [DONE]")


def test_pipelined_requests_are_answered_in_order(gateway: Gateway, upstream: Upstream) -> None:
    models = request_bytes("GET", "/v1/models", [])
    chat = request_bytes("POST", CHAT, _headers(gateway), BODY)
    with _send(gateway, models + chat + models + chat) as client:
        answers = [client.read_answer() for _ in range(4)]
    assert [answer.status for answer in answers] == [200] * 4
    assert isinstance(answers[0].json(), list)
    assert isinstance(answers[2].json(), list)
    assert answers[1].json()["object"] == answers[3].json()["object"] == "chat.completion"
    assert len(upstream.requests) == 2


def test_a_chunked_request_with_trailers_is_served(gateway: Gateway, upstream: Upstream) -> None:
    chunks = b"%x\r\n%s\r\n0\r\nX-Checksum: abc\r\n\r\n" % (len(BODY), BODY)
    with _send(gateway, _with(gateway, "Transfer-Encoding: chunked", body=chunks)) as client:
        assert client.read_answer().status == 200
        client.send(request_bytes("GET", "/v1/models", []))
        assert client.read_answer().status == 200
