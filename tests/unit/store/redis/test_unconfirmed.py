"""Settled calls that Redis loses: they are settled again, or logged."""

import pytest
from pydantic import SecretStr
from rig.ledger import locked_by_another
from rig.redis_stores import Rig, assert_sound, eventually
from rig.simulation import World, simulate
from rig.stores import (
    USD,
    all_counters,
    credit,
    request,
    settlement,
    wallet,
)

from addon.store.protocol import StoreUnavailable
from addon.store.redis import unconfirmed
from addon.store.redis.outbox import pack_call
from addon.store.redis.rebuild import rebuild_state
from addon.store.redis.store import RedisStore
from addon.store.redis.unconfirmed import UnconfirmedCalls


async def test_calls_that_an_emptied_redis_had_not_given_to_the_ledger_are_settled_again_once(
    rig: Rig,
) -> None:
    store = await rig.open()
    await store.credit(credit("c", USD))
    await store.settle(settlement("in the ledger"))
    await store.maintain()
    with locked_by_another(rig.location.path):
        for number in range(22):
            await store.hold(request(f"lost-{number}", wallet()))
            await store.settle(settlement(f"lost-{number}"))
        before = rig.location.used_now(all_counters())
        rig.server.flush()
        with pytest.raises(StoreUnavailable):
            await store.maintain()
    await rebuild_state(SecretStr(rig.server.url), rig.location.path)
    for _ in range(2):
        await eventually(store.maintain)
    await eventually(store.check)
    assert rig.location.rows().keys() == {"in the ledger", *(f"lost-{number}" for number in range(22))}
    assert rig.location.used_now(all_counters()) == before
    await assert_sound(rig, store)


async def test_a_settlement_is_forgotten_when_the_ledger_has_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unconfirmed, "KEEP_S", 0.0)
    store = await rig.open()
    assert isinstance(store, RedisStore)
    with locked_by_another(rig.location.path):
        await store.settle(settlement("a"))
        with pytest.raises(StoreUnavailable):
            await store.maintain()
        assert [one.row["id"] for one in store._unconfirmed.settlements()] == ["a"]
    await eventually(store.maintain)
    await eventually(store.maintain)
    assert store._unconfirmed.settlements() == []


def test_the_number_of_kept_settlements_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unconfirmed, "MAX_CALLS", 2)
    kept = unconfirmed.UnconfirmedCalls()
    for name in "abac":
        kept.add(name, pack_call(settlement(name)))
    assert [one.row["id"] for one in kept.settlements()] == ["a", "c"]


async def test_calls_that_redis_lost_are_logged_without_a_rebuild(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    store = await rig.open()
    await store.settle(settlement("in the ledger"))
    await store.maintain()
    with locked_by_another(rig.location.path):
        await store.settle(settlement("lost"))
        rig.server.flush()
        with pytest.raises(StoreUnavailable):
            await store.maintain()
    await store.close()
    lost = [record.__dict__["row"]["id"] for record in caplog.records if "is lost" in record.message]
    assert lost == ["lost"]


def test_a_settlement_is_due_when_it_was_kept_long_enough() -> None:
    async def main(world: World) -> list[list[str]]:
        calls = UnconfirmedCalls(world.clock)
        for name in ("a", "b"):
            calls.add(name, "[]")
        world.loop.advance(unconfirmed.KEEP_S - 1)
        calls.add("a", "[]")
        early = calls.due()
        world.loop.advance(2)
        return [early, calls.due()]

    assert simulate(1, main).result == [[], ["b"]]
