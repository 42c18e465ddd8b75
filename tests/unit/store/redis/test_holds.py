"""Holds in Redis: amounts that must be exact."""

import pytest
from rig.redis_stores import Rig
from rig.stores import MAX_COST, request, settlement

from addon.store.protocol import StoreUnavailable
from addon.store.redis.store import RedisStore
from policies.limits import Counter, Limit
from policies.spend import Denial, Hold, MaxCost, place_hold

EVER = Counter("key:acme/ci", "ever")


async def test_a_call_that_can_not_be_counted_exactly_is_refused(rig: Rig) -> None:
    store = await rig.open()
    limit = Limit("spend_cap", EVER, 9 * 10**15)
    for max_cost in (
        MaxCost(2**53, 1, 1, is_protected=True),
        MaxCost(1, 2**53 // 10, 1, is_protected=True),
        MaxCost(1, 1, 2**53 // 1000 + 1, is_protected=True),
    ):
        with pytest.raises(StoreUnavailable, match="counted exactly"):
            await store.hold(request("a", limit, max_cost=max_cost))
    assert rig.location.holds() == []


async def test_a_call_without_limits_is_held_as_the_policy_says(rig: Rig) -> None:
    store = await rig.open()
    for number, max_cost in enumerate((MaxCost(1, 10**12, 10**12, is_protected=True), MAX_COST)):
        assert await store.hold(request(f"a-{number}", max_cost=max_cost)) == place_hold(max_cost, (), {})


async def test_a_limit_on_a_counter_of_another_key_is_checked(rig: Rig) -> None:
    store = await rig.open()
    for most, decided in ((63_400, Hold), (1, Denial)):
        limit = Limit("spend_cap", Counter("key:acme/other", "ever"), most)
        assert isinstance(await store.hold(request(f"a-{most}", limit)), decided)


async def test_a_call_that_ended_is_held_no_more(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    assert isinstance(store, RedisStore)
    assert "a" in store._holds
    await store.settle(settlement("a"))
    assert "a" not in store._holds
