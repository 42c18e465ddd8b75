"""Redis that comes back empty, older, or as another: noticed, refused, and rebuilt from the ledger."""

import asyncio
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.bounds import BOUND_S
from rig.ledger import locked_by_another
from rig.redis_stores import Rig, assert_all_refused, assert_sound, eventually
from rig.stores import (
    WORKSPACE,
    Place,
    all_counters,
    credit,
    die,
    reason_of,
    request,
    settlement,
    takes,
    wallet,
)

from addon.store.ledger.file import LedgerFile
from addon.store.ledger.rows import iso
from addon.store.protocol import Store, StoreUnavailable
from addon.store.redis import unconfirmed
from addon.store.redis.client import RedisClient
from addon.store.redis.outbox import pack_call
from addon.store.redis.rebuild import rebuild_state
from addon.store.redis.state import RedisState
from addon.store.redis.store import RedisStore
from policies.limits import Counter, Limit, wallet_counter
from policies.spend import NOT_METERED, Hold, Used

USD = 10**9
EVER = Counter("key:acme/ci", "ever")


async def test_an_emptied_redis_is_noticed_by_every_operation_and_rebuilt_from_the_ledger(rig: Rig) -> None:
    store = await rig.open()
    await store.credit(credit("c", USD))
    await store.hold(request("a", wallet()))
    await store.settle(settlement("a"))
    await store.maintain()
    before = rig.place.used_now(all_counters())
    rig.server.flush()
    await assert_all_refused(store, "Redis came back empty; run `tollgate state rebuild`")
    with pytest.raises(StoreUnavailable):
        await store.settle(settlement("b"))
    url = SecretStr(rig.server.url)
    assert (await rebuild_state(url, rig.place.path)).workspaces == 1
    assert rig.place.used_now(all_counters()) == before
    await eventually(store.maintain)
    assert rig.place.rows().keys() == {"a", "b"}
    assert not await store.credit(credit("c", USD))
    await assert_sound(rig, store)


async def test_what_an_emptied_redis_had_not_given_to_the_ledger_is_written_again_once(rig: Rig) -> None:
    store = await rig.open()
    await store.credit(credit("c", USD))
    await store.settle(settlement("in the ledger"))
    await store.maintain()
    with locked_by_another(rig.place.path):
        for number in range(22):
            await store.hold(request(f"lost-{number}", wallet()))
            await store.settle(settlement(f"lost-{number}"))
        before = rig.place.used_now(all_counters())
        rig.server.flush()
        with pytest.raises(StoreUnavailable):
            await store.maintain()
    await rebuild_state(SecretStr(rig.server.url), rig.place.path)
    for _ in range(2):
        await eventually(store.maintain)
    await eventually(store.check)
    assert rig.place.rows().keys() == {"in the ledger", *(f"lost-{number}" for number in range(22))}
    assert rig.place.used_now(all_counters()) == before
    await assert_sound(rig, store)


async def test_a_booking_is_let_go_of_once_the_ledger_has_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unconfirmed, "KEEP_S", 0.0)
    store = await rig.open()
    assert isinstance(store, RedisStore)
    with locked_by_another(rig.place.path):
        await store.settle(settlement("a"))
        with pytest.raises(StoreUnavailable):
            await store.maintain()
        assert [one.row["id"] for one in store._unconfirmed.settlements()] == ["a"]
    await eventually(store.maintain)
    await eventually(store.maintain)
    assert store._unconfirmed.settlements() == []


def test_no_more_bookings_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unconfirmed, "MAX_BOOKINGS", 2)
    kept = unconfirmed.UnconfirmedCalls()
    for name in "abac":
        kept.add(name, pack_call(settlement(name)))
    assert [one.row["id"] for one in kept.settlements()] == ["a", "c"]


async def test_what_redis_lost_and_nobody_rebuilt_is_in_the_log(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    store = await rig.open()
    await store.settle(settlement("in the ledger"))
    await store.maintain()
    with locked_by_another(rig.place.path):
        await store.settle(settlement("lost"))
        rig.server.flush()
        with pytest.raises(StoreUnavailable):
            await store.maintain()
    await store.close()
    lost = [record.__dict__["row"]["id"] for record in caplog.records if "is lost" in record.message]
    assert lost == ["lost"]


async def test_an_emptied_redis_lets_no_workspace_in_that_is_new(rig: Rig) -> None:
    store = await rig.open()
    await takes(store, "acme", 1)
    rig.server.flush()
    with pytest.raises(StoreUnavailable, match="came back empty"):
        await takes(store, "unheard-of", 1)


async def test_an_emptied_redis_is_noticed_at_the_next_start(rig: Rig) -> None:
    store = await rig.open()
    await store.settle(settlement("a"))
    await store.close()
    rig.server.flush()
    with pytest.raises(StoreUnavailable, match="came back empty"):
        await rig.open()


async def test_a_ledger_that_never_booked_remembers_that_redis_was_not_empty(rig: Rig) -> None:
    await (await rig.open()).close()
    rig.server.flush()
    with pytest.raises(StoreUnavailable, match="came back empty"):
        await rig.open()


async def test_a_gateway_that_begins_anew_in_an_emptied_redis_is_not_followed(
    rig: Rig, tmp_path: Path
) -> None:
    store = await rig.open()
    await store.settle(settlement("a"))
    await store.maintain()
    rig.server.flush()
    await rig.open(rig.elsewhere(tmp_path))
    await assert_all_refused(store, "another state than the one that this ledger has worked with")


async def test_a_workspace_whose_state_is_gone_is_refused_and_the_others_are_not(rig: Rig) -> None:
    store = await rig.open()
    await takes(store, "acme", 10)
    await takes(store, "bare", 10)
    rig.server.command("DEL", "tollgate:{acme}:state")
    with pytest.raises(StoreUnavailable, match="lost a part"):
        await takes(store, "acme", 10)
    assert await takes(store, "bare", 10)


async def test_a_redis_that_came_back_older_is_refused_until_it_is_rebuilt(rig: Rig) -> None:
    store = await rig.open()
    await store.credit(credit("a", USD))
    rig.server.command("SAVE")
    await store.hold(request("spent"))
    await store.settle(settlement("spent", 1_000))
    await store.check()
    rig.server.kill()
    rig.server.start()
    refused = await refusal_of(store, "as it was some time ago")
    assert "state rebuild" in refused
    with pytest.raises(StoreUnavailable, match="some time ago"):
        await takes(store, WORKSPACE, 10)
    with pytest.raises(StoreUnavailable, match="came back empty"):
        await rig.open()  # A process that never saw what is missing does not trust it either.
    await rebuild_state(SecretStr(rig.server.url), rig.place.path)
    await eventually(store.maintain)
    assert await takes(store, WORKSPACE, 10)
    assert rig.place.used(wallet_counter(WORKSPACE)).spent_nanousd == 1_000 - USD


async def refusal_of(store: Store, reason: str) -> str:
    """Ask until the store is refused for this reason: at first its connections are gone."""
    async with asyncio.timeout(BOUND_S):
        while True:
            with pytest.raises(StoreUnavailable) as refused:
                await store.check()
            if reason in str(refused.value):
                return str(refused.value)


async def test_a_workspace_that_somebody_else_made_since_it_was_missed_is_not_lost(rig: Rig) -> None:
    await rig.open()
    client = RedisClient(SecretStr(rig.server.url))
    with closing(LedgerFile(rig.place.path)) as file:
        state = RedisState(client, file)
        async with client.timeout():
            await state.register_workspace("bare")
            await state.register_workspace("bare")
            rig.server.command("DEL", "tollgate:{bare}:state")
            with pytest.raises(StoreUnavailable, match="lost a part"):
                await state.register_workspace("bare")
    await client.close()


async def test_a_ledger_with_calls_is_counted_before_redis_is_used(rig: Rig) -> None:
    alone = Place(rig.place.path)
    first = alone.open()
    await first.credit(credit("c", USD))
    await first.settle(settlement("a", 400))
    await first.close()
    with pytest.raises(StoreUnavailable, match=r"does not count; run `tollgate state rebuild`"):
        await rig.open()
    await rebuild_state(SecretStr(rig.server.url), rig.place.path)
    store = await rig.open()
    assert rig.place.used(wallet_counter(WORKSPACE)) == Used(400 - USD)
    await store.settle(settlement("b", 50))
    await store.close()
    # And back again: SQLite counts what was booked meanwhile.
    again = alone.open()
    assert alone.used(EVER) == Used(450, 2)
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
    assert len(await rig.place.discrepancies()) == 4
    for _ in range(2):
        rebuilt = await rebuild_state(SecretStr(rig.server.url), rig.place.path)
        assert (rebuilt.workspaces, rebuilt.holds) == (1, 1)
    assert await rig.place.discrepancies() == []
    await eventually(store.maintain)
    await store.settle(settlement("a"))
    assert rig.place.used(EVER) == Used(3_120, 2, 0, 0)
    await assert_sound(rig, store)


async def test_calls_in_flight_while_redis_is_emptied_hold_their_money_again(rig: Rig) -> None:
    store = await rig.open()
    limit = Limit("spend_cap", EVER, 63_400)
    assert await store.hold(request("a", want=NOT_METERED)) == Hold(0, 1)
    assert await store.move_hold(request("a", limit, attempt=2)) == Hold(63_400, 100)
    rig.server.flush()
    with pytest.raises(StoreUnavailable):
        await store.maintain()
    await rebuild_state(SecretStr(rig.server.url), rig.place.path)
    await eventually(store.maintain)
    assert rig.place.used(EVER) == Used(0, 0, 63_400, 1)
    assert reason_of(await store.hold(request("b", limit))) == "budget_of_prompt"
    await die(store)
    heir = await rig.open()
    await heir.maintain()
    row = rig.place.rows()["a"]
    assert (row["error_code"], row["attempts"]) == ("interrupted", 2)
    assert await rig.place.discrepancies() == []


async def test_rebuilding_an_emptied_redis_does_not_give_the_last_minutes_tokens_back(rig: Rig) -> None:
    store = await rig.open()
    for number in range(3):
        assert await takes(store, WORKSPACE, 4)
        await store.settle(settlement(f"a-{number}", created_at=iso(datetime.now(UTC))))
    await store.maintain()
    rig.server.flush()
    await rebuild_state(SecretStr(rig.server.url), rig.place.path)
    assert await eventually(lambda: takes(store, WORKSPACE, 4))
    assert not await takes(store, WORKSPACE, 4)
