"""A pool of connections to providers, and calls on it, in the test's event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from addon.upstream.connection import UpstreamConnection
from addon.upstream.connector import SocketConnector
from addon.upstream.origin import Origin, Unreachable
from addon.upstream.pool import Pool, PoolLimits
from rig.bounds import BOUND_S
from rig.conservation import assert_pool_empty

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"


@asynccontextmanager
async def pool_of(limits: PoolLimits | None = None, **options: Any) -> AsyncIterator[Pool]:
    pool = Pool(SocketConnector(**options), limits or PoolLimits())
    try:
        yield pool
    finally:
        async with asyncio.timeout(BOUND_S):
            await pool.close()
        assert_pool_empty(pool)


async def acquire(pool: Pool, origin: Origin, workspace: str = "acme", **options: Any) -> UpstreamConnection:
    return await pool.acquire(origin, workspace, BOUND_S, **options)


async def wait_for_open_at_most(count: int, pool: Pool) -> None:
    """Wait until at most ``count`` sockets are open. Closing one takes a turn of the loop."""
    async with asyncio.timeout(BOUND_S):
        while pool.stats().open > count:  # noqa: ASYNC110  (the pool has no event for it)
            await asyncio.sleep(0)


async def read_body(connection: UpstreamConnection) -> bytes:
    pieces = []
    while piece := await connection.read():
        pieces.append(piece)
    return b"".join(pieces)


async def exchange(connection: UpstreamConnection, body: bytes = b"{}") -> bytes:
    """Make one request and return the body of its answer."""
    connection.send(REQUEST.replace(b": 2", b": %d" % len(body)), body)
    await connection.head()
    return await read_body(connection)


async def fail_to_acquire(pool: Pool, origin: Origin, timeout_s: float = BOUND_S) -> Unreachable:
    with pytest.raises(Unreachable) as raised:
        await pool.acquire(origin, "acme", timeout_s)
    assert pool.stats().open == 0
    return raised.value


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
