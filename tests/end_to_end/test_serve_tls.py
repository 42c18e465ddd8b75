"""``tollgate serve`` with a certificate: HTTP/1.1 and HTTP/2 over TLS, and no plain HTTP."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.processes import with_wire
from rig.raw_clients import RawClient
from rig.scripts import DONE, Gate, chunk, chunked, event
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def secure_gateway(start_gateway: StartGateway, secure_sections: dict[str, Any]) -> Gateway:
    """A gateway with TLS that waits only a short time for a ClientHello."""
    return start_gateway(program=with_wire(head_timeout_s=0.3), sections=secure_sections)


@pytest.mark.parametrize(("http2", "version"), [(False, "HTTP/1.1"), (True, "HTTP/2")])
@pytest.mark.parametrize("stream", [False, True])
def test_tls_serves_both_http_versions(
    secure_gateway: Gateway,
    upstream: Upstream,
    trusting: ssl.SSLContext,
    http2: bool,
    version: str,
    stream: bool,
) -> None:
    assert secure_gateway.url.startswith("https://127.0.0.1:")
    with httpx.Client(http2=http2, verify=trusting, timeout=BOUND_S, trust_env=False) as client:
        body = {"messages": HELLO, "stream": stream}
        answer = client.post(secure_gateway.url + CHAT, headers=secure_gateway.headers, json=body)
    assert (answer.status_code, answer.http_version) == (200, version)
    assert answer.headers["date"].endswith(" GMT")
    assert answer.text.endswith("data: [DONE]\n\n") if stream else answer.json()["model"] == "tester-large"


def test_a_plain_http_client_gets_a_plain_http_error(secure_gateway: Gateway, upstream: Upstream) -> None:
    with RawClient(secure_gateway.url) as client:
        client.send(secure_gateway.chat_bytes())
        answer = client.read_answer()
        assert assert_error(answer, 400, "bad_request", "invalid_request_error")["message"] == (
            "This port speaks HTTPS: begin the base URL with https://."
        )
        assert answer.header("connection") == "close"
        assert client.is_closed_by_peer()
    assert upstream.requests == []


def test_a_plain_http_client_that_goes_on_is_cut_off(secure_gateway: Gateway, upstream: Upstream) -> None:
    with RawClient(secure_gateway.url) as client:
        client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
        assert client.read_answer().status == 400
        client.send(b"x" * 100_000)
        assert client.is_closed_by_peer()


def test_tls_closes_a_client_that_sends_no_whole_hello(secure_gateway: Gateway) -> None:
    with RawClient(secure_gateway.url) as silent, RawClient(secure_gateway.url) as halting:
        halting.send(bytes.fromhex("1603010200010001fc0303"))  # The first bytes of a ClientHello.
        assert silent.is_closed_by_peer()
        assert halting.is_closed_by_peer()


def test_tls_older_than_1_2_is_refused(secure_gateway: Gateway, trusting: ssl.SSLContext) -> None:
    trusting.set_ciphers("DEFAULT@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        trusting.minimum_version = trusting.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        RawClient(secure_gateway.url, trusting)


def test_a_renewed_certificate_is_served_and_a_broken_one_is_not(
    start_gateway: StartGateway, authority: trustme.CA, trusting: ssl.SSLContext, tmp_path: Path
) -> None:
    pem = tmp_path / "server.pem"

    def issue() -> bytes:
        issued = authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem
        issued.write_to_path(str(pem))
        return issued.bytes()

    def served() -> str:
        """Return the PEM of the certificate that a new connection gets."""
        address = ("127.0.0.1", httpx.URL(gateway.url).port)
        with socket.create_connection(address, BOUND_S) as sock:  # noqa: SIM117  (the socket has to close, too)
            with trusting.wrap_socket(sock, server_hostname="127.0.0.1") as connection:
                return ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True) or b"")

    first = issue()
    gateway = start_gateway(sections={"listen": {"tls_certificate": str(pem)}})
    assert served().encode() in first
    second = issue()
    assert served().encode() in second
    other_key = authority.issue_cert("127.0.0.1").private_key_pem.bytes()
    certificate = second[second.index(b"-----BEGIN CERTIFICATE") :]
    for broken in (b"", second[: len(second) // 2], other_key + certificate):
        pem.write_bytes(broken)
        assert served().encode() in second
    gateway.wait_for_log(lambda line: line.get("event") == "file broken")
    pem.unlink()
    assert served().encode() in second
    third = issue()
    assert served().encode() in third


async def test_http2_calls_drain_too(
    start_gateway: StartGateway, upstream: Upstream, secure_sections: dict[str, Any], trusting: ssl.SSLContext
) -> None:
    """With httpx, which gives up an open stream when it hears that its connection ends."""
    gateway, gate = start_gateway(sections=secure_sections), Gate()
    rest = (event(chunk("two", finish_reason="stop")), DONE)
    upstream.behave(chunked(event(chunk("one")), gate, *rest))
    body = {"messages": HELLO, "stream": True}
    async with (
        httpx.AsyncClient(
            http1=False, http2=True, verify=trusting, timeout=BOUND_S, trust_env=False
        ) as client,
        client.stream("POST", gateway.url + CHAT, headers=gateway.headers, json=body) as answer,
    ):
        pieces = answer.aiter_bytes()
        received = await anext(pieces)
        gateway.terminate()
        await asyncio.to_thread(gateway.wait_until, lambda: gateway.readiness().status_code == 503)
        gate.open()
        received += b"".join([piece async for piece in pieces])
    assert received.endswith(DONE)
    assert await asyncio.to_thread(gateway.wait) == 0
