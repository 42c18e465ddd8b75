"""Waits for a connection to a provider that are cancelled: no socket and no place is lost."""

import asyncio
from contextlib import suppress

import pytest
from rig.provider import OK, Peer, Provider
from rig.upstream_pool import REQUEST, acquire, cancel, exchange, pool_of, read_body, wait_for_open_at_most

from addon.upstream.pool import PoolLimits


@pytest.mark.parametrize("wait", ["head", "read"])
async def test_a_cancelled_wait_leaks_no_socket(wait: str) -> None:
    async def answer(peer: Peer) -> None:
        await peer.request()
        if wait == "read":
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        connection.send(REQUEST, b"{}")
        if wait == "read":
            await connection.head()
        task = asyncio.ensure_future(getattr(connection, wait)())
        await asyncio.sleep(0)
        assert not task.done()
        await cancel(task)
        connection.close()
        await wait_for_open_at_most(0, pool)


async def test_a_cancelled_wait_can_be_repeated() -> None:
    go_on = asyncio.Event()

    async def answer(peer: Peer) -> None:
        await peer.request()
        await go_on.wait()
        await peer.send(OK)

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        connection.send(REQUEST, b"{}")
        task = asyncio.ensure_future(connection.head())
        await asyncio.sleep(0)
        await cancel(task)
        go_on.set()
        assert (await connection.head()).status == 200
        assert await read_body(connection) == b"ok"
        connection.release()
        assert pool.stats().idle == 1


async def test_a_cancelled_acquire_leaks_no_socket_and_no_place() -> None:
    limits = PoolLimits(open_per_origin=1)
    async with Provider() as provider, pool_of(limits) as pool:
        for turns in range(12):
            task = asyncio.ensure_future(acquire(pool, provider.origin()))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                (await task).close()  # In the last turns it is already done.
        connection = await acquire(pool, provider.origin())
        assert await exchange(connection) == b"ok"
        assert pool.stats().open == 1
        connection.close()
        await provider.wait_until_all_closed()
