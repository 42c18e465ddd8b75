"""No line of the log has what a client or a provider sends instead of proper TLS, or over it, in any encoding."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
import trustme
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.canaries import seen_in_answer
from rig.canary_requests import BODIES, KEY, RAW
from rig.canary_scene import CANARIES, CHAT, CLIENT_HEADERS, KEYS, MESSAGES, PROMPT
from rig.configuration import model, provider, workspace
from rig.gateway import Gateway
from rig.raw_clients import RawClient, request_bytes
from rig.upstream import Upstream

RECORD = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The beginning of a TLS record with a ClientHello."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def _frame(kind: int, stream: int, payload: bytes, flags: int = 0) -> bytes:
    """Return one HTTP/2 frame. Source: RFC 9113, 4.1."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _literal(name: bytes, value: bytes) -> bytes:
    """Return one header field, never indexed. Source: RFC 7541, 6.2.3."""
    return b"\x10" + bytes([len(name)]) + name + bytes([len(value)]) + value


SECRET = f"Bearer {KEY} {PROMPT}".encode()
REQUEST_HEAD = b"".join(
    _literal(name, value)
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"https"),
        (b":authority", b"h"),
        (b":path", CHAT.encode()),
    )
)
NOT_TLS = {
    "a record and no hello": RECORD + SECRET,
    "a hello that is too long": b"\x16\x03\x01\xff\xff" + SECRET * 800,
    "an alert": b"\x15\x03\x01\x00\x02\x02\x28" + SECRET,
    "another version": b"\x16\x02\x00\x00\x50" + SECRET,
    "HTTP/2 without TLS": PREFACE + SECRET,
    "no HTTP": SECRET,
}
H2_FAULTS = {
    "no preface": SECRET,
    "a header in upper case": _frame(1, 1, REQUEST_HEAD + _literal(b"Authorization", SECRET), 0x4),
    "an unknown pseudo header": _frame(1, 1, _literal(b":" + KEY.encode(), SECRET), 0x4),
    "a header with a line end": _frame(1, 1, REQUEST_HEAD + _literal(b"x", SECRET + b"\r\n"), 0x4),
    "a connection header": _frame(1, 1, REQUEST_HEAD + _literal(b"connection", SECRET), 0x4),
    "no HPACK": _frame(1, 1, b"\xff" * 8 + SECRET, 0x4),
    "data on no stream": _frame(0, 0, SECRET),
    "data on a stream that is not there": _frame(0, 5, SECRET),
    "a frame of no kind": _frame(0xEE, 1, SECRET),
    "settings of no length": _frame(4, 0, SECRET[:7]),
    "a ping that is too long": _frame(6, 0, SECRET),
    "a push": _frame(5, 1, SECRET),
    "a farewell": _frame(7, 0, bytes(8) + SECRET),
}


@pytest.fixture(scope="module")
def pretender(authority: trustme.CA) -> Iterator[Upstream]:
    """Yield a provider whose certificate has a secret as its name, which is not the name of its host."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(f"{KEY.replace('_', '-')}.test").configure_cert(context)
    with Upstream(tls=context) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def secure(
    start_gateway: StartGateway, secure_sections: dict[str, Any], pretender: Upstream
) -> Iterator[Gateway]:
    gateway = start_gateway(
        sections=secure_sections,
        providers={"PRETENDER": provider(pretender.base_url)},
        models={"alpha": model(provider="PRETENDER")},
        workspaces={"solo": workspace(("solo", KEYS["solo"], True))},
    )
    yield gateway
    assert gateway.stop() == 0
    assert not CANARIES.found_in("\n".join([*gateway.stderr_lines, *gateway.later_stdout()]).encode())


def _fresh(context: ssl.SSLContext, *protocols: str) -> ssl.SSLContext:
    context.set_alpn_protocols(protocols or ["http/1.1"])
    return context


def _send(client: RawClient, raw: bytes) -> None:
    """Send, and read what is answered, to the end; the gateway may have closed before all is sent."""
    with suppress(ConnectionError, ssl.SSLError):
        client.send(raw)
        client.half_close()
        assert not CANARIES.found_in(client.read_to_close())


def test_plain_http_and_other_bytes_to_a_port_of_tls(secure: Gateway) -> None:
    call = request_bytes("POST", CHAT, [("Authorization", f"Bearer {KEY}"), *CLIENT_HEADERS.items()], SECRET)
    for raw in (call, *(raw.encode() for raw in RAW.values()), *NOT_TLS.values()):
        with RawClient(secure.url) as client:
            _send(client, raw)
    secure.wait_for_log(lambda line: line.get("event") == "client tls failed")


def test_a_secret_as_the_name_of_the_server_or_of_a_protocol(secure: Gateway) -> None:
    names = (f"{KEY.replace('_', '-')}.test", "localhost")
    for name, trusts in ((names[0], False), (names[1], True), (names[0], True)):
        context = ssl.create_default_context()
        if trusts:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        parts = httpx.URL(secure.url)
        context.set_alpn_protocols([KEY])
        with (
            socket.create_connection((parts.host, parts.port or 0), timeout=BOUND_S) as plain,
            suppress(ssl.SSLError, ConnectionError),
            context.wrap_socket(plain, server_hostname=name) as client,
        ):
            client.sendall(
                SECRET + b"\r\n\r\n"
            )  # a whole head: the gateway waits 10 s for the rest of a part
            client.recv(1)


def test_bad_requests_over_tls(secure: Gateway, trusting: ssl.SSLContext) -> None:
    requests = [raw.encode() for raw in RAW.values()]
    requests += [request_bytes("POST", CHAT, *request) for request in BODIES.values()]
    for raw in requests:
        with RawClient(secure.url, _fresh(trusting)) as client:
            _send(client, raw)


def test_bad_http2_over_tls(secure: Gateway, trusting: ssl.SSLContext) -> None:
    for name, frames in H2_FAULTS.items():
        opening = b"" if name == "no preface" else PREFACE + _frame(4, 0, b"")
        with RawClient(secure.url, _fresh(trusting, "h2")) as client:
            _send(client, opening + frames)


def test_a_provider_whose_certificate_has_a_secret(secure: Gateway, trusting: ssl.SSLContext) -> None:
    with httpx.Client(verify=trusting, trust_env=False, timeout=BOUND_S) as client:
        headers = {"Authorization": f"Bearer {KEY}"}
        answer = client.post(
            secure.url + CHAT, headers=headers, json={"model": "alpha", "messages": MESSAGES}
        )
    assert answer.status_code == 502
    assert not CANARIES.found_in(seen_in_answer(answer))
    line = secure.wait_for_log(lambda line: line.get("event") == "no connection")
    assert "the certificate does not verify" in line["message"]
