"""New connections to providers on real sockets: names, addresses, TLS, and an egress proxy."""

import asyncio
import base64
import errno
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from OpenSSL import SSL
from rig.bounds import BOUND_S
from rig.egress_proxy import GRANTED, run_egress_proxy
from rig.provider import OK, Peer, Provider, echo_ok
from rig.upstream import DeafPort
from rig.upstream_pool import REQUEST, acquire, exchange, pool_of, read_body, wait_for_open_at_most

from addon.upstream import connect
from addon.upstream.connection import UpstreamConnectionError
from addon.upstream.pool import EgressProxy, Origin, Pool, PoolLimits, Unreachable, parse_proxy


@pytest.fixture(scope="module")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["h2", "http/1.1"])
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any) -> None:
    """Trust the authority of the run by ``SSL_CERT_FILE``, like an operator."""
    file = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    monkeypatch.setenv("SSL_CERT_FILE", str(file))


async def unreachable(pool: Pool, origin: Origin, timeout_s: float = BOUND_S) -> Unreachable:
    with pytest.raises(Unreachable) as raised:
        await pool.acquire(origin, "acme", timeout_s)
    assert pool.stats().open == 0
    return raised.value


# TLS.


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
        error = await unreachable(pool, provider.origin(host="localhost"))
        assert "certificate does not verify" in error.reason
        assert not error.lagged


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_trusted_certificate_of_another_host_is_refused(authority: trustme.CA, host: str) -> None:
    other = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("example.com", "127.0.0.2").configure_cert(other)
    async with Provider(tls=other) as provider, pool_of() as pool:
        error = await unreachable(pool, provider.origin(host=host))
        assert "certificate does not verify" in error.reason


@pytest.mark.usefixtures("trusted")
async def test_a_provider_without_tls_is_unreachable() -> None:
    async def answer(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with Provider(answer) as provider, pool_of() as pool:
        error = await unreachable(pool, Origin("https", "127.0.0.1", provider.port))
        assert error.reason.startswith("TLS: ")


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
            assert not broke.value.is_unanswered
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
        await connection.sent()
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


def renegotiating(authority: trustme.CA) -> SSL.Context:
    """Return a context of OpenSSL. A server of the standard library can't start a handshake within TLS 1.2."""
    certificate = authority.issue_cert("localhost")
    context = SSL.Context(SSL.TLSv1_2_METHOD)
    chain = certificate.cert_chain_pems[0].bytes()
    context.use_certificate(x509.load_pem_x509_certificate(chain))
    context.use_privatekey(
        serialization.load_pem_private_key(certificate.private_key_pem.bytes(), password=None)
    )
    return context


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
async def test_a_hostile_provider_behind_tls_never_reaches_the_next_call(
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


# Time.


async def mute(peer: Peer) -> None:
    await peer.wait_until_closed()


@pytest.mark.usefixtures("trusted")
async def test_a_handshake_that_is_not_answered_ends_in_time_and_leaks_no_socket() -> None:
    async with Provider(mute) as provider, pool_of() as pool:
        error = await unreachable(pool, Origin("https", "127.0.0.1", provider.port), 0.1)
        assert not error.lagged
        await provider.wait_until_all_closed()
        assert provider.connections == 1


@pytest.mark.usefixtures("trusted")
async def test_a_handshake_that_is_cancelled_leaks_no_socket() -> None:
    arrived = asyncio.Event()

    async def answer(peer: Peer) -> None:
        arrived.set()
        await peer.wait_until_closed()

    async with Provider(answer) as provider, pool_of() as pool:
        task = asyncio.ensure_future(acquire(pool, Origin("https", "127.0.0.1", provider.port)))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await provider.wait_until_all_closed()


@pytest.mark.usefixtures("trusted")
async def test_closing_the_pool_ends_calls_that_connect_or_wait() -> None:
    arrived = asyncio.Event()

    async def answer(peer: Peer) -> None:
        arrived.set()
        await peer.wait_until_closed()

    async with Provider(answer) as provider, pool_of(PoolLimits(open_per_origin=1)) as pool:
        origin = Origin("https", "127.0.0.1", provider.port)
        calls = [asyncio.ensure_future(unreachable(pool, origin)) for _ in range(3)]
        await arrived.wait()
        await pool.close()
        assert all(error.lagged for error in await asyncio.gather(*calls))
        await provider.wait_until_all_closed()


async def test_a_port_that_takes_no_connection_is_unreachable_in_time() -> None:
    with DeafPort() as deaf:
        async with pool_of() as pool:
            host, port = deaf.base_url.removeprefix("http://").split("/")[0].split(":")
            error = await unreachable(pool, Origin("http", host, int(port)), 0.1)
            assert error.reason == "not connected in time"
            assert not error.lagged


async def test_a_refusing_port_is_unreachable() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        async with pool_of() as pool:
            error = await unreachable(pool, Origin("http", "127.0.0.1", sock.getsockname()[1]))
            assert error.reason == "connection refused"


async def test_a_late_process_is_not_the_fault_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("addon.runtime.deadline.LATE_S", -1)  # Every timer is late.
    async with Provider(mute) as provider, pool_of(context=ssl.create_default_context()) as pool:
        error = await unreachable(pool, Origin("https", "127.0.0.1", provider.port), 0.01)
        assert error.lagged


# Names and addresses.


def resolving_to(*addresses: str) -> Callable[[str, int], Any]:
    async def resolve(host: str, port: int) -> Sequence[str]:
        assert host == "provider.example"
        return addresses

    return resolve


async def test_a_name_is_looked_up_off_the_loop_and_an_address_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def look_up(host: str, port: int, **options: Any) -> Any:
        asked.append((host, threading.current_thread() is threading.main_thread()))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    async with Provider() as provider, pool_of() as pool:
        for host in ("provider.example", "127.0.0.1"):
            connection = await acquire(pool, provider.origin(host=host))
            assert await exchange(connection) == b"ok"
    assert asked == [("provider.example", False)]


async def test_an_unknown_name_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*args: Any, **options: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    async with pool_of() as pool:
        for host in ("provider.example", "a" * 70 + ".example"):
            error = await unreachable(pool, Origin("http", host, 80))
            assert error.reason == "the host name can't be resolved"


async def test_a_look_up_that_waits_is_not_the_fault_of_the_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on = threading.Event()

    def look_up(*args: Any, **options: Any) -> Any:
        go_on.wait(BOUND_S)
        raise socket.gaierror(socket.EAI_NONAME, "no")

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    async with pool_of() as pool:
        origin = Origin("http", "provider.example", 80)
        alone = await unreachable(pool, origin, 0.05)
        assert not alone.lagged
        many = [unreachable(pool, origin, 0.05) for _ in range(connect.LOOKUPS)]
        assert all(error.lagged for error in await asyncio.gather(*many))
        go_on.set()


async def test_an_address_of_ipv6() -> None:
    try:
        async with Provider(host="::1") as provider, pool_of() as pool:
            assert await exchange(await acquire(pool, provider.origin())) == b"ok"
    except OSError as error:
        if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            raise
        pytest.skip("this machine has no IPv6")


async def test_the_next_address_is_tried_where_one_refuses() -> None:
    async with Provider() as provider, pool_of(resolve=resolving_to("127.0.0.2", "127.0.0.1")) as pool:
        connection = await acquire(pool, provider.origin(host="provider.example"))
        assert await exchange(connection) == b"ok"


async def test_a_silent_address_delays_the_next_one_only_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "ATTEMPT_DELAY_S", 0.01)
    with DeafPort() as deaf:
        port = int(deaf.base_url.removeprefix("http://").split("/")[0].split(":")[1])
        resolve = resolving_to("127.0.0.1", "127.0.0.2")
        async with Provider(host="127.0.0.2", port=port), pool_of(resolve=resolve) as pool:
            connection = await acquire(pool, Origin("http", "provider.example", port))
            assert await exchange(connection) == b"ok"
            assert pool.stats().open == 1


async def test_a_provider_is_unreachable_when_all_addresses_fail() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        async with pool_of(resolve=resolving_to("127.0.0.2", "127.0.0.3")) as pool:
            await unreachable(pool, Origin("http", "provider.example", sock.getsockname()[1]))
        async with pool_of(resolve=resolving_to()) as pool:
            await unreachable(pool, Origin("http", "provider.example", 80))


async def test_a_race_leaves_no_second_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "ATTEMPT_DELAY_S", 0)
    async with Provider(host="0.0.0.0") as provider:
        for _ in range(10):
            async with pool_of(resolve=resolving_to("127.0.0.1", "127.0.0.2", "127.0.0.3")) as pool:
                connection = await acquire(pool, Origin("http", "provider.example", provider.port))
                assert await exchange(connection) == b"ok"
                assert pool.stats().open == 1
        await provider.wait_until_all_closed()


def test_families_take_turns() -> None:
    found = [(6, "a"), (6, "b"), (6, "c"), (4, "d"), (4, "e")]
    assert connect.interleave(found) == ["a", "d", "b", "e", "c"]


async def test_sockets_are_watched_by_the_kernel_and_send_at_once() -> None:
    async with Provider() as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        transport = connection._socket._transport
        assert transport is not None
        sock = transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60


# The egress proxy.

PASSWORD = "hunter2-secret"


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_connections_go_through_the_proxy(server_tls: ssl.SSLContext, scheme: str) -> None:
    tls = server_tls if scheme == "https" else None
    async with run_egress_proxy() as (proxy, asked), Provider(tls=tls) as provider, pool_of() as pool:
        pool.set_proxy(parse_proxy(f"http://user:{PASSWORD}@127.0.0.1:{proxy.port}"))
        for _ in range(3):
            connection = await acquire(pool, provider.origin(host="localhost"))
            assert await exchange(connection) == b"ok"
            connection.release()
        credentials = base64.b64encode(f"user:{PASSWORD}".encode())
        assert asked == [
            b"CONNECT localhost:%d HTTP/1.1\r\nHost: localhost:%d\r\nProxy-Authorization: Basic %b\r\n\r\n"
            % (provider.port, provider.port, credentials)
        ]
        pool.set_proxy(None)
        await provider.wait_until_all_closed()
        connection = await acquire(pool, provider.origin(host="localhost"))
        assert not connection.is_reused
        assert await exchange(connection) == b"ok"
        assert len(asked) == 1


async def test_a_part_of_this_process_is_reached_without_the_proxy() -> None:
    async with run_egress_proxy() as (_, asked), Provider() as provider, pool_of() as pool:
        pool.set_proxy(EgressProxy("127.0.0.1", 1, None))
        for is_reused in (False, True):
            connection = await acquire(pool, replace(provider.origin(), is_direct=True))
            assert connection.is_reused == is_reused
            assert await exchange(connection) == b"ok"
            connection.release()
        assert asked == []


async def test_a_connection_of_another_proxy_setting_is_not_kept() -> None:
    async with Provider() as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        pool.set_proxy(EgressProxy("127.0.0.1", 1, None))
        assert await exchange(connection) == b"ok"
        connection.release()
        assert pool.stats().idle == 0


REFUSALS = {
    b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n": "the egress proxy answered 407",
    b"HTTP/1.1 502 Bad Gateway\r\n\r\n" + PASSWORD.encode(): "the egress proxy answered 502",
    b"HTTP/1.1 100 Continue\r\n\r\n": "the egress proxy answered 100",
    b"SSH-2.0-OpenSSH\r\n\r\n": "the egress proxy's answer is malformed",
    b"HTTP/1.1 200 OK\n\n": "the egress proxy's answer is malformed",
    b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70_000: "the egress proxy's answer is malformed",
    b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70_000 + b"\r\n\r\n": "the egress proxy's answer is malformed",
    GRANTED + b"HTTP/1.1 200 OK\r\n\r\n": "the egress proxy sent bytes after its answer",
}


@pytest.mark.parametrize("answer", REFUSALS, ids=range(len(REFUSALS)))
async def test_the_error_of_a_proxy_that_refuses_has_only_its_status(answer: bytes) -> None:
    async with run_egress_proxy(answer) as (proxy, _), Provider() as provider, pool_of() as pool:
        pool.set_proxy(parse_proxy(f"http://user:{PASSWORD}@127.0.0.1:{proxy.port}"))
        error = await unreachable(pool, provider.origin())
        assert error.reason == REFUSALS[answer]
        assert PASSWORD not in repr(error)
        await proxy.wait_until_all_closed()
        assert provider.connections == 0


async def test_a_proxy_that_closes_or_keeps_silent() -> None:
    async def close(peer: Peer) -> None:
        await peer.request()
        peer.writer.close()

    async with Provider(close) as closing, Provider(mute) as silent, pool_of() as pool:
        pool.set_proxy(EgressProxy("127.0.0.1", closing.port, None))
        error = await unreachable(pool, Origin("http", "provider.example", 80))
        assert error.reason == "the egress proxy closed the connection"
        pool.set_proxy(EgressProxy("127.0.0.1", silent.port, None))
        error = await unreachable(pool, Origin("http", "provider.example", 80), 0.1)
        assert error.reason == "not connected in time"
        await silent.wait_until_all_closed()


def test_valid_proxy_settings() -> None:
    proxy = parse_proxy("http://us%40er:p%3Aw@proxy.example:3128")
    assert (proxy.host, proxy.port) == ("proxy.example", 3128)
    assert proxy.authorization is not None
    credentials = base64.b64decode(proxy.authorization.get_secret_value().removeprefix("Basic "))
    assert credentials == b"us@er:p:w"
    assert credentials.decode() not in repr(proxy) and "Basic" not in repr(proxy)
    assert parse_proxy("http://proxy.example/") == EgressProxy("proxy.example", 80, None)
    assert parse_proxy("http://[::1]:3128") == EgressProxy("::1", 3128, None)
    assert EgressProxy("p", 80).connect_request("::1", 443).startswith(b"CONNECT [::1]:443 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "url",
    [
        *("", "proxy.example:3128", f"https://u:{PASSWORD}@proxy.example", f"socks5://{PASSWORD}@x"),
        *(f"http://u:{PASSWORD}@", f"http://u:{PASSWORD}@h:port", f"http://u:{PASSWORD}@h:99999"),
        *(f"http://u:{PASSWORD}@h/path", f"http://h/?{PASSWORD}", f"http://h/#{PASSWORD}", "http://h:0"),
        *(f"http://u:{PASSWORD}@h\r\nx: y", f"http://u:{PASSWORD} @h", f"http://[{PASSWORD}]", "http://h%0d"),
    ],
)
def test_a_malformed_proxy_is_refused_and_never_shown(url: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_proxy(url)
    assert PASSWORD not in str(refused.value)
    assert refused.value.__cause__ is None
