"""Holds in Redis: amounts that must be exact."""

import pytest
from rig.redis_stores import Rig
from rig.stores import WANT, request

from addon.store.protocol import StoreUnavailable
from policies.limits import Counter, Limit
from policies.spend import Want, place_hold

EVER = Counter("key:acme/ci", "ever")


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


async def test_a_call_without_limits_is_held_as_the_policy_says(rig: Rig) -> None:
    store = await rig.open()
    for number, want in enumerate((Want(1, 10**12, 10**12, is_protected=True), WANT)):
        assert await store.hold(request(f"a-{number}", want=want)) == place_hold(want, (), {})
