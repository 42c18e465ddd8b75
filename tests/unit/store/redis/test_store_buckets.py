"""The token buckets in Redis: their size and their clock."""

import pytest
from rig.large import sampled
from rig.redis_stores import Rig
from rig.stores import WORKSPACE, takes


@sampled(every=3)
@pytest.mark.parametrize("limit_rpm", [60, 400, 401, 1_000, 100_000])
async def test_a_full_bucket_takes_less_than_64_kib(rig: Rig, limit_rpm: int) -> None:
    store = await rig.open()
    bucket = "tollgate:{acme}:takes"
    assert await takes(store, WORKSPACE, limit_rpm)
    # The fullest bucket without waiting a minute: one group in each slice.
    seconds, micros = map(int, rig.server.command("TIME"))
    now = seconds * 1_000_000 + micros
    rig.server.command("DEL", bucket)
    groups = min(limit_rpm, 401)
    for number in range(groups):
        at = now - 59_000_000 + number * 147_000
        rig.server.command("ZADD", bucket, at, f"{10**11 + number * 250:015}:250:{at}")
    for _ in range(5):
        await takes(store, WORKSPACE, 10**9)
    assert rig.server.command("ZCARD", bucket) <= 401
    assert rig.server.command("MEMORY", "USAGE", bucket, "SAMPLES", 0) < 64 * 1024
    assert 0 < rig.server.command("PTTL", bucket) <= 61_000


def age_takes(rig: Rig, by_us: int) -> None:
    """Make all takes older, or with a negative time newer, as if Redis's clock had moved."""
    rig.location.age_takes([WORKSPACE], by_us)


async def test_a_token_comes_back_a_minute_after_it_was_taken(rig: Rig) -> None:
    store = await rig.open()
    assert await takes(store, WORKSPACE, 2)
    age_takes(rig, 30_000_000)
    assert await takes(store, WORKSPACE, 2)
    assert not await takes(store, WORKSPACE, 2)
    age_takes(rig, 31_000_000)
    assert await takes(store, WORKSPACE, 2)
    assert not await takes(store, WORKSPACE, 2)


async def test_after_an_idle_minute_there_is_a_full_burst(rig: Rig) -> None:
    store = await rig.open()
    for _ in range(2):
        assert [await takes(store, WORKSPACE, 500) for _ in range(501)] == [True] * 500 + [False]
        age_takes(rig, 61_000_000)


async def test_a_clock_that_goes_back_admits_no_extra_call_and_blocks_for_at_most_a_minute(
    rig: Rig,
) -> None:
    store = await rig.open()
    assert [await takes(store, WORKSPACE, 3) for _ in range(2)] == [True, True]
    age_takes(rig, -3_600_000_000)
    assert [await takes(store, WORKSPACE, 3) for _ in range(2)] == [True, False]
    age_takes(rig, 61_000_000)
    assert [await takes(store, WORKSPACE, 3) for _ in range(4)] == [True, True, True, False]
