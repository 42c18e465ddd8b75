"""The rebuild of the state in Redis from the ledger."""

from datetime import UTC, datetime

import pytest
from pydantic import SecretStr
from rig.redis_stores import Rig, assert_sound, eventually
from rig.stores import (
    USD,
    WORKSPACE,
    StoreLocation,
    credit,
    die,
    reason_of,
    request,
    settlement,
    takes,
    wallet,
)

from addon.store.protocol import StoreUnavailable
from addon.store.redis.keys import keys_of
from addon.store.redis.rebuild import rebuild_state
from policies.limits import Counter, Limit, wallet_counter
from policies.spend import NOT_METERED, CounterUse, Hold
from policies.utc_time import format_utc

EVER = Counter("key:acme/ci", "ever")


async def test_a_ledger_with_calls_is_counted_before_redis_is_used(rig: Rig) -> None:
    alone = StoreLocation(rig.location.path)
    first = alone.open()
    await first.credit(credit("c", USD))
    await first.settle(settlement("a", 400))
    await first.close()
    with pytest.raises(StoreUnavailable, match=r"does not count; run `tollgate state rebuild`"):
        await rig.open()
    await rebuild_state(SecretStr(rig.server.url), rig.location.path)
    store = await rig.open()
    assert rig.location.used(wallet_counter(WORKSPACE)) == CounterUse(400 - USD)
    await store.settle(settlement("b", 50))
    await store.close()
    # Back to SQLite: it counts the calls that Redis recorded too.
    again = alone.open()
    assert alone.used(EVER) == CounterUse(450, 2)
    assert await alone.discrepancies() == []
    await again.close()
    with pytest.raises(StoreUnavailable, match="does not count"):
        await rig.open()


async def test_rebuilding_keeps_the_calls_in_flight_and_may_be_done_at_any_time(rig: Rig) -> None:
    store = await rig.open()
    await store.credit(credit("c", USD))
    await store.hold(request("a", wallet()))
    await store.settle(settlement("done"))
    for name in ("tollgate:{acme}:spend:key:acme/ci:ever", "tollgate:{acme}:spend:wallet:acme:ever"):
        rig.server.command("HSET", name, "spent", 7, "held", 7)
    assert len(await rig.location.discrepancies()) == 4
    for _ in range(2):
        rebuilt = await rebuild_state(SecretStr(rig.server.url), rig.location.path)
        assert (rebuilt.workspaces, rebuilt.holds) == (1, 1)
    assert await rig.location.discrepancies() == []
    await eventually(store.maintain)
    await store.settle(settlement("a"))
    assert rig.location.used(EVER) == CounterUse(3_120, 2, 0, 0)
    await assert_sound(rig, store)


async def test_calls_in_flight_while_redis_is_emptied_hold_their_money_again(rig: Rig) -> None:
    store = await rig.open()
    limit = Limit("spend_cap", EVER, 63_400)
    assert await store.hold(request("a", max_cost=NOT_METERED)) == Hold(0, 1)
    assert await store.move_hold(request("a", limit, attempt=2)) == Hold(63_400, 100)
    rig.server.flush()
    with pytest.raises(StoreUnavailable):
        await store.maintain()
    await rebuild_state(SecretStr(rig.server.url), rig.location.path)
    await eventually(store.maintain)
    assert rig.location.used(EVER) == CounterUse(0, 0, 63_400, 1)
    assert reason_of(await store.hold(request("b", limit))) == "budget_of_prompt"
    await die(store)
    successor = await rig.open()
    await successor.maintain()
    row = rig.location.rows()["a"]
    assert (row["error_code"], row["attempts"]) == ("interrupted", 2)
    assert await rig.location.discrepancies() == []


async def test_a_rebuild_does_not_give_back_the_tokens_of_the_last_minute(rig: Rig) -> None:
    store = await rig.open()
    for number in range(3):
        assert await takes(store, WORKSPACE, 4)
        await store.settle(settlement(f"a-{number}", created_at=format_utc(datetime.now(UTC))))
    await store.maintain()
    rig.server.flush()
    await rebuild_state(SecretStr(rig.server.url), rig.location.path)
    assert await eventually(lambda: takes(store, WORKSPACE, 4))
    assert not await takes(store, WORKSPACE, 4)


async def test_a_rebuild_forgets_entries_that_the_ledger_does_not_have(rig: Rig) -> None:
    store = await rig.open()
    await store.credit(credit("c", USD))
    await store.maintain()
    credits_key = keys_of(WORKSPACE).credits
    rig.server.command("SADD", credits_key, "of another ledger")
    await rebuild_state(SecretStr(rig.server.url), rig.location.path)
    assert rig.server.command("SMEMBERS", credits_key) == {"c"}
