"""Stores on a Redis that a test may break: checks of the refusals, and of the recovery."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from addon.store.protocol import Store, StoreUnavailable
from policies.spend import Hold
from rig.bounds import BOUND_S
from rig.redis_fixtures import StartRedis
from rig.redis_server import RedisServer
from rig.stores import WORKSPACE, StoreLocation, credit, request, settlement, takes

type Op = Callable[[Store], Awaitable[Any]]
OPERATIONS: dict[str, Op] = {
    "take": lambda store: takes(store, WORKSPACE, 1_000),
    "hold": lambda store: store.hold(request("refused")),
    "credit": lambda store: store.credit(credit("refused", 1)),
    "check": lambda store: store.check(),
    "maintain": lambda store: store.maintain(),
}


class Rig:
    """A Redis for one test, and stores on it."""

    def __init__(self, server: RedisServer, folder: Path, opened: AsyncExitStack) -> None:
        self.server = server
        self.location = StoreLocation(folder / "var" / "tollgate.db", server.url)
        self._opened = opened

    async def open(self, location: StoreLocation | None = None) -> Store:
        store = (location or self.location).open()
        self._opened.push_async_callback(store.close)
        await store.check()
        return store

    def elsewhere(self, folder: Path) -> StoreLocation:
        """Return the location of another machine: another ledger and other processes."""
        return StoreLocation(folder / "elsewhere" / "tollgate.db", self.server.url)


@pytest.fixture
async def rig(start_redis: StartRedis, tmp_path: Path) -> AsyncIterator[Rig]:
    async with AsyncExitStack() as opened:
        yield Rig(start_redis(), tmp_path, opened)


async def eventually(step: Callable[[], Awaitable[Any]]) -> Any:
    """Repeat a step until it is not refused any more."""
    async with asyncio.timeout(BOUND_S):
        while True:
            with suppress(StoreUnavailable):
                return await step()
            await asyncio.sleep(0.05)


async def assert_all_refused(store: Store, reason: str) -> None:
    """Every operation is refused at once with ``reason``."""
    for operation in OPERATIONS.values():
        with pytest.raises(StoreUnavailable, match=reason):
            await asyncio.wait_for(operation(store), BOUND_S)


async def assert_sound(rig: Rig, store: Store) -> None:
    """Calls work, refused ones left nothing, and everything agrees."""
    assert await eventually(lambda: takes(store, WORKSPACE, 1_000))
    await eventually(store.maintain)
    assert rig.location.holds() == []
    assert await store.hold(request("after")) == Hold(63_400, 100)
    await store.settle(settlement("after"))
    await store.maintain()
    assert "after" in rig.location.rows()
    assert await rig.location.discrepancies() == []
