"""The keys in Redis and how long they are kept."""

from rig.redis_stores import Rig
from rig.stores import request, settlement


async def test_counters_of_past_periods_expire_and_those_without_a_period_stay(rig: Rig) -> None:
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
