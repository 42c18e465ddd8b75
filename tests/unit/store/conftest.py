"""Fixtures for tests that run on all stores: SQLite alone, and rates in Redis with money in SQLite or PostgreSQL."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from rig.stores import OpenStore, StoreLocation

from addon.store.protocol import Store


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> StoreLocation:
    """The location where the stores of a test are opened."""
    url = None if request.param == "sqlite" else request.getfixturevalue("redis_url")
    postgres = request.getfixturevalue("postgres_ledger_url") if request.param == "postgres" else None
    return StoreLocation(tmp_path / "var" / "tollgate.db", url, postgres=postgres)


@pytest.fixture
async def open_store(location: StoreLocation) -> AsyncIterator[OpenStore]:
    """Open stores like those of other processes. They are closed with the test."""
    async with AsyncExitStack() as opened:

        async def open_one() -> Store:
            store = location.open()
            opened.push_async_callback(store.close)
            await store.check()
            return store

        yield open_one


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return await open_store()


@pytest.fixture
async def other(open_store: OpenStore, store: Store) -> Store:
    """The store of another process on the same database."""
    return await open_store()
