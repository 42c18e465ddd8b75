"""The tokens of a rate limit, in SQLite and in Redis."""

import asyncio

import pytest
from rig.stores import WORKSPACE, takes

from addon.store.protocol import Store

# Those of money alone have no tokens and no circuits.
pytestmark = pytest.mark.parametrize("location", ["sqlite", "redis"], indirect=True)


async def test_all_stores_together_get_only_the_tokens_of_the_bucket(store: Store, other: Store) -> None:
    assert [await takes(one, WORKSPACE, 3) for one in (store, other, store, other, store)] == [
        *[True] * 3,
        *[False] * 2,
    ]


async def test_each_workspace_has_its_own_bucket(store: Store) -> None:
    assert await takes(store, "acme", 1)
    assert await takes(store, "bare", 1)
    assert not await takes(store, "acme", 1)


async def test_a_new_limit_applies_at_once(store: Store) -> None:
    assert [await takes(store, WORKSPACE, 2) for _ in range(3)] == [True, True, False]
    assert [await takes(store, WORKSPACE, 4) for _ in range(3)] == [True, True, False]
    assert not await takes(store, WORKSPACE, 1)
    assert [await takes(store, WORKSPACE, 500) for _ in range(2)] == [True, True]


async def test_takes_at_once_are_counted_one_by_one(store: Store, other: Store) -> None:
    taken = await asyncio.gather(*(takes(one, WORKSPACE, 25) for one in (store, other) for _ in range(20)))
    assert taken.count(True) == 25


@pytest.mark.parametrize("limit_rpm", [400, 401, 1000])
async def test_no_limit_is_exceeded_when_takes_are_grouped(store: Store, limit_rpm: int) -> None:
    assert all([await takes(store, WORKSPACE, limit_rpm) for _ in range(limit_rpm)])
    assert not await takes(store, WORKSPACE, limit_rpm)
