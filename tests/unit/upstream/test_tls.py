"""TLS toward providers, on real sockets."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest
import trustme
from OpenSSL import SSL
from rig.provider import OK, Peer, Provider, echo_ok
from rig.renegotiation import renegotiating
from rig.upstream_pool import (
    REQUEST,
    acquire,
    exchange,
    fail_to_acquire,
    pool_of,
    read_body,
    wait_for_open_at_most,
)

from addon.upstream.connection_error import UpstreamConnectionError
from addon.upstream.origin import Origin
from addon.upstream.tls import make_context


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_calls_over_tls_share_one_connection(server_tls: ssl.SSLContext, host: str) -> None:
    protocols = []

    async def answer(peer: Peer) -> None:
        protocols.append(peer.writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await echo_ok(peer)

    async with Provider(answer, server_tls) as provider, pool_of() as pool:
        for _ in range(40):
            connection = await acquire(pool, provider.origin(host=host))
            assert await exchange(connection) == b"ok"
            connection.release()
        assert pool.stats().opened == 1
        assert protocols == ["http/1.1"]


@pytest.mark.usefixtures("trusted")
async def test_a_certificate_must_match_its_host() -> None:
    other = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("localhost").configure_cert(other)
    async with Provider(tls=other) as provider, pool_of() as pool:
        error = await fail_to_acquire(pool, provider.origin(host="localhost"))
        assert "certificate does not verify" in error.reason
        assert not error.lagged


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_trusted_certificate_of_another_host_is_refused(authority: trustme.CA, host: str) -> None:
    other = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("example.com", "127.0.0.2").configure_cert(other)
    async with Provider(tls=other) as provider, pool_of() as pool:
        error = await fail_to_acquire(pool, provider.origin(host=host))
        assert "certificate does not verify" in error.reason


@pytest.mark.usefixtures("trusted")
async def test_a_provider_without_tls_is_unreachable() -> None:
    async def answer(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with Provider(answer) as provider, pool_of() as pool:
        error = await fail_to_acquire(pool, Origin("https", "127.0.0.1", provider.port))
        assert error.reason.startswith("TLS: ")


@pytest.mark.usefixtures("trusted")
async def test_a_provider_that_closes_instead_of_a_handshake_is_unreachable() -> None:
    async def close(peer: Peer) -> None:
        peer.writer.close()

    async with Provider(close) as provider, pool_of() as pool:
        error = await fail_to_acquire(pool, Origin("https", "127.0.0.1", provider.port))
        assert "clos" in error.reason or "reset" in error.reason


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("is_proper", [True, False])
async def test_a_body_until_close_is_complete_only_with_close_notify(
    server_tls: ssl.SSLContext, is_proper: bool
) -> None:
    async def answer(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        if is_proper:
            peer.writer.close()
        else:
            peer.writer.transport.abort()

    async with Provider(answer, server_tls) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        connection.send(REQUEST, b"{}")
        assert await connection.read() == b"all of it"
        if is_proper:
            assert await connection.read() == b""
        else:
            with pytest.raises(UpstreamConnectionError) as broke:
                await connection.read()
            assert broke.value.lost.is_answered
        connection.release()
        assert pool.stats().idle == 0


@pytest.mark.usefixtures("trusted")
async def test_large_bodies_over_tls_both_ways_and_slowly(server_tls: ssl.SSLContext) -> None:
    size = 8 << 20
    sent = 0

    async def answer(peer: Peer) -> None:
        nonlocal sent
        request = await peer.request()
        assert request.endswith(b"\r\n\r\n" + bytes(range(256)) * (size // 256))
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while sent < size:
            await peer.send(bytes(range(256)) * 256)
            sent += 65_536

    async with Provider(answer, server_tls) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        body = bytes(range(256)) * (size // 256)
        connection.send(REQUEST.replace(b": 2", b": %d" % size), body)
        await connection.head()
        before = -1
        while before != sent:
            before = sent
            for _ in range(50):
                await asyncio.sleep(0)
        assert connection._unread_bytes <= 2 * 65_536
        assert await read_body(connection) == body
        connection.release()
        assert pool.stats().idle == 1


@pytest.mark.usefixtures("trusted")
async def test_a_tls_connection_whose_request_was_not_read_whole_is_not_kept(
    server_tls: ssl.SSLContext,
) -> None:
    async def answer(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(OK)
        await asyncio.Event().wait()

    async with Provider(answer, server_tls) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        size = 16 << 20
        assert await exchange(connection, bytes(size)) == b"ok"
        connection.release()
        assert pool.stats().idle == 0


def answer_after_a_new_handshake(context: SSL.Context, listening: socket.socket) -> tuple[bytes, int]:
    """Serve one request. Start a new handshake after its head. Return its body and the number of handshakes."""
    peer, _ = listening.accept()
    with peer:
        connection = SSL.Connection(context, peer)
        connection.set_accept_state()
        request = b""
        while b"\r\n\r\n" not in request:
            request += connection.recv(100)
        connection.renegotiate()
        connection.do_handshake()
        head, _, body = request.partition(b"\r\n\r\n")
        size = int(head.rpartition(b": ")[2])
        while len(body) < size:
            body += connection.recv(65_536)
        connection.sendall(OK)
        return body, connection.total_renegotiations()


@pytest.mark.usefixtures("trusted")
async def test_a_provider_may_ask_for_a_new_handshake_in_the_middle_of_a_request(
    authority: trustme.CA,
) -> None:
    sent = bytes(range(256)) * (8 << 12)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # A small buffer, so that the handshake starts while most of the body waits to be sent.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        served = asyncio.get_running_loop().run_in_executor(
            None, answer_after_a_new_handshake, renegotiating(authority), listening
        )
        async with pool_of() as pool:
            connection = await acquire(pool, Origin("https", "localhost", listening.getsockname()[1]))
            assert await exchange(connection, sent) == b"ok"
            assert await served == (sent, 1)
            connection.release()


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("answer_bytes", [OK + OK, OK + b"x", b"HTTP/1.1 100 Continue\r\n\r\n" + OK + OK])
async def test_a_hostile_tls_provider_never_reaches_the_next_call(
    server_tls: ssl.SSLContext, answer_bytes: bytes
) -> None:
    async def answer(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer_bytes)

    async with Provider(answer, server_tls) as provider, pool_of() as pool:
        for _ in range(2):
            connection = await acquire(pool, provider.origin())
            assert not connection.is_reused
            assert await exchange(connection) == b"ok"
            connection.release()


@pytest.mark.usefixtures("trusted")
async def test_an_idle_tls_connection_that_the_provider_closed_is_not_used(
    server_tls: ssl.SSLContext,
) -> None:
    async def answer(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        peer.writer.close()

    async with Provider(answer, server_tls) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        assert await exchange(connection) == b"ok"
        connection.release()
        await wait_for_open_at_most(0, pool)
        assert not (await acquire(pool, provider.origin())).is_reused


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("stage", ["before the request", "within the body"])
async def test_a_tls_connection_that_is_reset(server_tls: ssl.SSLContext, stage: str) -> None:
    async def answer(peer: Peer) -> None:
        if stage == "within the body":
            await peer.request()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok")
        peer.reset()

    async with Provider(answer, server_tls) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        with pytest.raises(UpstreamConnectionError):
            await exchange(connection)
        connection.close()
        await wait_for_open_at_most(0, pool)


@pytest.mark.usefixtures("trusted")
def test_the_authorities_of_certifi_are_trusted_only_where_the_system_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    assert len(make_context().get_ca_certs()) == 1
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    assert len(make_context().get_ca_certs()) > 1
