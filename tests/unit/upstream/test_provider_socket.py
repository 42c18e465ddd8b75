"""Idle sockets to providers: what the provider did to them is noticed before they are used again."""

import ssl

import pytest
from rig.provider import OK, Peer, Provider
from rig.upstream_pool import acquire, exchange, pool_of

from addon.upstream.pool import PoolLimits


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "TLS"])
async def test_unread_bytes_in_the_socket_are_noticed_before_it_is_used_again(
    server_tls: ssl.SSLContext, is_tls: bool
) -> None:
    """The event loop has no turn between the arrival of the bytes and the next call."""
    peers: list[Peer] = []

    async def answer(peer: Peer) -> None:
        peers.append(peer)
        await peer.request()
        await peer.send(OK)

    async with Provider(answer, server_tls if is_tls else None) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        await exchange(connection)
        connection.release()
        peers[0].writer.get_extra_info("socket")._sock.send(OK)
        following = await acquire(pool, provider.origin())
        assert not following.is_reused
        await exchange(following)
        following.release()
        kept = following._socket
        assert kept.idle_until_s - kept.idle_since_s == pytest.approx(PoolLimits().idle_s / 2)


async def test_a_connection_that_is_closed_is_closed_at_once_and_tells_its_call_no_more() -> None:
    async with Provider() as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        socket = connection._socket
        connection.close()
        assert socket.is_closed
        assert socket.receiver is None


async def test_an_idle_connection_that_the_provider_closed_is_not_used() -> None:
    async def answer(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        peer.writer.close()

    async with Provider(answer) as provider, pool_of() as pool:
        for _ in range(3):
            connection = await acquire(pool, provider.origin())
            assert not connection.is_reused
            assert await exchange(connection) == b"ok"
            connection.release()
            await provider.wait_until_all_closed()
