"""What the store in Redis counts: tokens, bytes, seconds, and amounts that must be exact."""

import pytest
from rig.redis_stores import Rig
from rig.stores import WANT, WORKSPACE, request, settlement, takes

from addon.store.protocol import StoreUnavailable
from policies.limits import Counter, Limit
from policies.spend import Want, place_hold

EVER = Counter("key:acme/ci", "ever")


@pytest.mark.parametrize("limit_rpm", [60, 400, 401, 1_000, 100_000])
async def test_a_full_bucket_takes_less_than_64_kib(rig: Rig, limit_rpm: int) -> None:
    store = await rig.open()
    bucket = "tollgate:{acme}:takes"
    assert await takes(store, WORKSPACE, limit_rpm)
    # The fullest that it can get, without waiting a minute: a group in each slice.
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


async def shift(rig: Rig, by_us: int) -> None:
    """Move all takes in time, as if Redis's clock had gone the other way."""
    takes = "tollgate:{acme}:takes"
    for member, at in rig.server.command("ZRANGE", takes, 0, -1, "WITHSCORES"):
        total, count, began = member.split(":")
        rig.server.command("ZREM", takes, member)
        moved = f"{total}:{count}:{int(began) + by_us}"
        rig.server.command("ZADD", takes, int(at) + by_us, moved)


async def test_a_token_comes_back_a_minute_after_it_was_taken(rig: Rig) -> None:
    store = await rig.open()
    assert await takes(store, WORKSPACE, 2)
    await shift(rig, -30_000_000)
    assert await takes(store, WORKSPACE, 2)
    assert not await takes(store, WORKSPACE, 2)
    await shift(rig, -31_000_000)
    assert await takes(store, WORKSPACE, 2)
    assert not await takes(store, WORKSPACE, 2)


async def test_after_an_idle_minute_there_is_a_full_burst(rig: Rig) -> None:
    store = await rig.open()
    for _ in range(2):
        assert [await takes(store, WORKSPACE, 500) for _ in range(501)] == [True] * 500 + [False]
        await shift(rig, -61_000_000)


async def test_a_clock_that_goes_back_lets_nothing_through_and_locks_nobody_out_for_more_than_a_minute(
    rig: Rig,
) -> None:
    store = await rig.open()
    assert [await takes(store, WORKSPACE, 3) for _ in range(2)] == [True, True]
    await shift(rig, 3_600_000_000)
    assert [await takes(store, WORKSPACE, 3) for _ in range(2)] == [True, False]
    await shift(rig, -61_000_000)
    assert [await takes(store, WORKSPACE, 3) for _ in range(4)] == [True, True, True, False]


async def test_counters_of_periods_that_end_vanish_and_those_for_ever_stay(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    await store.settle(settlement("a"))
    day = 86_400
    for period, days in (("2026-11-21", 3), ("2026-W47", 10), ("2026-11", 40)):
        assert (
            days - 1
            < rig.server.command("TTL", f"tollgate:{{acme}}:spend:key:acme/ci:{period}") / day
            <= days
        )
    assert rig.server.command("TTL", "tollgate:{acme}:spend:key:acme/ci:ever") == -1
    assert rig.server.command("TTL", "tollgate:{acme}:spend:wallet:acme:ever") == -1
    assert 0 < rig.server.command("TTL", "tollgate:{acme}:ended:a") <= 3_600


async def test_a_call_that_can_not_be_counted_exactly_is_refused(rig: Rig) -> None:
    store = await rig.open()
    limit = Limit("spend_cap", EVER, 9 * 10**15)
    for want in (
        Want(2**53, 1, 1, is_protected=True),
        Want(1, 2**53 // 10, 1, is_protected=True),
        Want(1, 1, 2**53 // 1000 + 1, is_protected=True),
    ):
        with pytest.raises(StoreUnavailable, match="counted exactly"):
            await store.hold(request("a", limit, want=want))
    assert rig.place.holds() == []


async def test_a_call_that_nothing_bounds_is_held_as_the_policy_says(rig: Rig) -> None:
    store = await rig.open()
    for number, want in enumerate((Want(1, 10**12, 10**12, is_protected=True), WANT)):
        assert await store.hold(request(f"a-{number}", want=want)) == place_hold(want, (), {})
