"""The store in Redis when Redis fails: calls are refused at once, and work again when Redis is back."""

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.redis_fixtures import StartRedis
from rig.redis_stores import Rig, assert_all_refused, assert_sound, eventually
from rig.stores import WORKSPACE, all_counters, request, settlement, takes

from addon.store.protocol import Store, StoreUnavailable
from policies.limits import Counter
from policies.spend import NOT_METERED, CounterUse

EVER = Counter("key:acme/ci", "ever")


# Redis does not work.


async def test_while_redis_refuses_connections_calls_are_refused_and_then_go_on(
    start_redis: StartRedis, tmp_path: Path
) -> None:
    async with AsyncExitStack() as opened:
        rig = Rig(start_redis(appendonly=True), tmp_path, opened)
        store = await rig.open()
        await store.hold(request("in flight"))
        rig.server.stop()
        await assert_all_refused(store, r"Redis at 127\.0\.0\.1:\d+: ")
        with pytest.raises(StoreUnavailable):
            await store.settle(settlement("in flight"))
        rig.server.start()
        await eventually(store.maintain)
        assert rig.location.rows().keys() == {"in flight"}
        await assert_sound(rig, store)


async def test_while_redis_is_frozen_calls_are_refused_and_then_go_on(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("in flight"))
    await store.hold(request("left"))
    rig.server.freeze()
    await assert_all_refused(store, "no answer within")
    with pytest.raises(StoreUnavailable):
        await store.settle(settlement("in flight"))
    with pytest.raises(StoreUnavailable):
        await store.void("left")
    rig.server.thaw()
    await eventually(store.maintain)
    assert (rig.location.rows().keys(), rig.location.holds()) == ({"in flight"}, [])
    await assert_sound(rig, store)


async def test_many_calls_at_once_on_a_frozen_redis_are_all_refused_and_leave_nothing_behind(
    rig: Rig,
) -> None:
    store = await rig.open()
    rig.server.freeze()
    calls = [store.hold(request(f"call-{number}")) for number in range(150)]
    outcomes = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), BOUND_S)
    assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
    rig.server.thaw()
    await assert_sound(rig, store)
    assert rig.location.used(EVER) == CounterUse(1_560, 1, 0, 0)


async def test_a_slow_redis_is_refused_like_a_silent_one(rig: Rig) -> None:
    store = await rig.open()
    rig.server.command("CLIENT", "PAUSE", 60_000, "WRITE")
    await assert_all_refused(store, "no answer within")
    rig.server.command("CLIENT", "UNPAUSE")
    await assert_sound(rig, store)


async def test_a_redis_that_runs_an_endless_script_is_refused(rig: Rig) -> None:
    store = await rig.open()
    rig.server.command("CONFIG", "SET", "busy-reply-threshold", 1)
    endless = asyncio.create_task(asyncio.to_thread(rig.server.command, "EVAL", "while true do end", 0))
    reason = await reason_of_refusal(store)
    assert "no answer within" in reason or "busy running a script" in reason
    rig.server.command("SCRIPT", "KILL")
    with suppress(Exception):
        await endless
    await assert_sound(rig, store)


async def reason_of_refusal(store: Store) -> str:
    """Wait until takes are refused, and return the reason."""
    async with asyncio.timeout(BOUND_S):
        while True:
            try:
                await takes(store, WORKSPACE, 1_000)
            except StoreUnavailable as error:
                return str(error)


async def test_a_redis_out_of_memory_refuses_new_calls_but_ends_those_in_flight(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("settled"))
    await store.hold(request("voided"))
    rig.server.command("CONFIG", "SET", "maxmemory", 1)
    await assert_all_refused(store, "maxmemory")
    await store.settle(settlement("settled"))
    await store.void("voided")
    assert rig.location.holds() == []
    rig.server.command("CONFIG", "SET", "maxmemory", 0)
    await assert_sound(rig, store)
    assert rig.location.rows().keys() == {"settled", "after"}


async def test_a_read_only_replica_is_refused(rig: Rig) -> None:
    store = await rig.open()
    rig.server.command("REPLICAOF", "127.0.0.1", 1)
    await assert_all_refused(store, "read only replica")
    rig.server.command("REPLICAOF", "NO", "ONE")
    await assert_sound(rig, store)


async def test_a_redis_that_may_evict_keys_is_not_used(rig: Rig) -> None:
    rig.server.command("CONFIG", "SET", "maxmemory", "100mb")
    rig.server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    with pytest.raises(StoreUnavailable, match="set maxmemory-policy to noeviction"):
        await rig.open()


# Redis did not answer, and may still run the step.


async def test_a_hold_without_an_answer_is_released_even_if_redis_places_it_later(rig: Rig) -> None:
    store = await rig.open()
    await takes(store, WORKSPACE, 10)
    await store.hold(request("warm"))
    await store.void("warm")
    rig.server.freeze()
    with pytest.raises(StoreUnavailable):
        await store.hold(request("a"))
    rig.server.thaw()
    await eventually(store.maintain)
    assert rig.location.holds() == []
    assert rig.location.used_now(all_counters()) == [CounterUse()] * 6


async def test_a_hold_that_arrives_after_its_release_is_not_placed(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    await store.void("a")
    with pytest.raises(StoreUnavailable, match="can't be held: it has ended"):
        await store.hold(request("a"))
    assert rig.location.holds() == []


async def test_a_hold_whose_caller_leaves_is_released(rig: Rig) -> None:
    store = await rig.open()
    await takes(store, WORKSPACE, 10)
    for number in range(40):
        call = asyncio.create_task(store.hold(request(f"call-{number}")))
        for _ in range(number % 8):
            await asyncio.sleep(0)
        call.cancel()
        with suppress(asyncio.CancelledError):
            if await call:
                await store.void(f"call-{number}")
    await eventually(store.maintain)
    assert rig.location.holds() == []
    assert rig.location.used_now(all_counters()) == [CounterUse()] * 6
    await assert_sound(rig, store)


@pytest.mark.parametrize("settles_first", [True, False])
async def test_a_move_that_was_not_answered_leaves_a_hold_that_settles_once(
    rig: Rig, settles_first: bool
) -> None:
    """The move reaches Redis before the call is settled, or after it."""
    store = await rig.open()
    await store.hold(request("a"))
    rig.server.freeze()
    with pytest.raises(StoreUnavailable):
        await store.move_hold(request("a", max_cost=NOT_METERED, attempt=2))
    if settles_first:
        with pytest.raises(StoreUnavailable):
            await store.settle(settlement("a", 0, status=503))
    rig.server.thaw()
    await eventually(store.maintain)
    assert rig.location.holds() == ([] if settles_first else ["a"])
    await store.settle(settlement("a", 0, status=503))
    await store.maintain()
    assert [row["status"] for row in rig.location.rows().values()] == [503]
    assert rig.location.used_now(all_counters()) == [CounterUse(0, 1)] * 5 + [CounterUse()]
    assert await rig.location.discrepancies() == []


async def test_a_hold_survives_a_move_whose_caller_leaves(rig: Rig) -> None:
    store = await rig.open()
    for number in range(20):
        await store.hold(request(f"call-{number}"))
        move = asyncio.create_task(
            store.move_hold(request(f"call-{number}", max_cost=NOT_METERED, attempt=2))
        )
        for _ in range(number % 8):
            await asyncio.sleep(0)
        move.cancel()
        with suppress(asyncio.CancelledError):
            await move
    await store.maintain()
    assert len(rig.location.holds()) == 20
    for number in range(20):
        await store.settle(settlement(f"call-{number}"))
    assert rig.location.used(EVER) == CounterUse(20 * 1_560, 20)
    await assert_sound(rig, store)


async def test_a_settlement_that_was_not_answered_counts_once(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    rig.server.freeze()
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await store.settle(settlement("a"))
    rig.server.thaw()
    await eventually(store.maintain)
    await store.maintain()
    assert rig.location.rows().keys() == {"a"}
    assert rig.location.used(EVER) == CounterUse(1_560, 1, 0, 0)
    assert rig.location.entries() == {"a": -1_560}


async def test_pending_settlements_are_written_when_the_store_closes(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    rig.server.freeze()
    with pytest.raises(StoreUnavailable):
        await store.settle(settlement("a"))
    rig.server.thaw()
    await eventually(lambda: takes(store, WORKSPACE, 1_000))
    await store.close()
    assert rig.location.rows().keys() == {"a"}


async def test_a_settlement_that_close_can_not_write_is_logged(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    rig.server.stop()
    with pytest.raises(StoreUnavailable):
        await store.settle(settlement("a", end_user="somebody@example.com"))
    await store.close()
    assert "a ledger row is lost" in caplog.text
    assert "'retail_nanousd': 1560" in caplog.text
    assert "somebody" not in caplog.text
    rig.server.start()
