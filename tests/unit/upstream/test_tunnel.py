"""Connections through an egress proxy, on real sockets."""

import asyncio
import base64
import ssl

import pytest
from msgspec.structs import replace
from rig.egress_proxy import GRANTED, run_egress_proxy
from rig.provider import Peer, Provider, stay_silent
from rig.upstream_pool import acquire, exchange, fail_to_acquire, pool_of

from addon.settings.egress_proxy import EgressProxy, parse_proxy
from addon.text.http1_heads import MAX_HEAD_BYTES
from addon.upstream.origin import Origin
from addon.upstream.tunnel import Tunnel

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
        error = await fail_to_acquire(pool, provider.origin())
        assert error.reason == REFUSALS[answer]
        assert PASSWORD not in repr(error)
        await proxy.wait_until_all_closed()
        assert provider.connections == 0


async def test_a_proxy_that_closes_or_keeps_silent() -> None:
    async def close(peer: Peer) -> None:
        await peer.request()
        peer.writer.close()

    async with Provider(close) as closing, Provider(stay_silent) as silent, pool_of() as pool:
        pool.set_proxy(EgressProxy("127.0.0.1", closing.port, None))
        error = await fail_to_acquire(pool, Origin("http", "provider.example", 80))
        assert error.reason == "the egress proxy closed the connection"
        pool.set_proxy(EgressProxy("127.0.0.1", silent.port, None))
        error = await fail_to_acquire(pool, Origin("http", "provider.example", 80), 0.1)
        assert error.reason == "not connected in time"
        await silent.wait_until_all_closed()


@pytest.mark.parametrize("more_bytes", [0, 1])
async def test_the_head_of_a_proxys_answer_has_a_bound(more_bytes: int) -> None:
    granted = b"HTTP/1.1 200 OK\r\nA: \r\n\r\n"
    padding = b"a" * (MAX_HEAD_BYTES - len(granted) + more_bytes)
    tunnel = Tunnel(b"CONNECT", asyncio.Protocol)
    tunnel.connection_made(Refusing())
    tunnel.data_received(granted.replace(b"A: ", b"A: " + padding))
    assert (tunnel.ready.exception() is None) == (not more_bytes)


async def test_a_proxys_answer_is_understood_byte_by_byte() -> None:
    tunnel = Tunnel(b"CONNECT", asyncio.Protocol)
    tunnel.connection_made(Refusing())
    for byte in GRANTED:
        assert not tunnel.ready.done()
        tunnel.data_received(bytes([byte]))
    assert tunnel.ready.exception() is None


async def test_a_proxy_that_refuses_and_waits_is_left() -> None:
    transport = Refusing()
    tunnel = Tunnel(b"CONNECT", asyncio.Protocol)
    tunnel.connection_made(transport)
    tunnel.data_received(b"HTTP/1.1 407 No\r\n\r\n")
    assert transport.is_aborted
    tunnel.data_received(b"more")
    tunnel.connection_lost(None)
    assert str(tunnel.ready.exception()) == "the egress proxy answered 407"


@pytest.mark.parametrize("status", [200, 502])
async def test_a_proxy_that_sends_much_after_its_head_is_understood(status: int) -> None:
    tunnel = Tunnel(b"CONNECT", asyncio.Protocol)
    tunnel.connection_made(Refusing())
    tunnel.data_received(b"HTTP/1.1 %d Said\r\n\r\n" % status + b"x" * (MAX_HEAD_BYTES + 1))
    expected = {200: "sent bytes after its answer", 502: "answered 502"}
    assert expected[status] in str(tunnel.ready.exception())


class Refusing(asyncio.Transport):
    """The connection to a proxy that does not close it."""

    is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert bytes(data) == b"CONNECT"

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True
