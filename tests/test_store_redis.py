"""The store in Redis where Redis fails: calls are refused, never let through and never hung, and then all goes on."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from rig.redis_fixtures import StartRedis
from rig.redis_server import RedisServer
from rig.stores import WANT, WORKSPACE, Place, all_counters, booking, credit, die, request, wallet

from addon.store import Store, StoreUnavailable
from addon.store.ledger_file import LedgerFile
from addon.store.rebuild import rebuild_state
from addon.store.redis import RedisStore
from addon.store.redis_client import CONNECTIONS, RedisClient
from addon.store.redis_session import drain
from addon.store.redis_state import RedisState
from addon.store.sqlite_money import iso
from policies.limits import Counter, Limit, wallet_counter
from policies.spend import Denial, Hold, Used, Want, place_hold

USD = 10**9
EVER = Counter("key:acme/ci", "ever")
BOUND_S = 20
"""Far more than any step may take on a busy machine, and far less than a hang."""

type Op = Callable[[Store], Awaitable[Any]]
OPERATIONS: dict[str, Op] = {
    "take": lambda store: store.take(WORKSPACE, 1_000),
    "hold": lambda store: store.hold(request("refused")),
    "credit": lambda store: store.credit(credit("refused", 1)),
    "check": lambda store: store.check(),
    "upkeep": lambda store: store.upkeep(),
}


class Rig:
    """A Redis of the test's own, and stores on it."""

    def __init__(self, server: RedisServer, folder: Path, opened: AsyncExitStack) -> None:
        self.server = server
        self.place = Place(folder / "var" / "tollgate.db", server.url)
        self._opened = opened

    async def open(self, place: Place | None = None) -> Store:
        store = (place or self.place).open()
        self._opened.push_async_callback(store.close)
        await store.check()
        return store

    def elsewhere(self, folder: Path) -> Place:
        """Another machine: a ledger of its own, and no process in common."""
        return Place(folder / "elsewhere" / "tollgate.db", self.server.url)


@pytest.fixture
async def rig(start_redis: StartRedis, tmp_path: Path) -> AsyncIterator[Rig]:
    async with AsyncExitStack() as opened:
        yield Rig(start_redis(), tmp_path, opened)


async def eventually(step: Callable[[], Awaitable[Any]]) -> Any:
    """Repeat a step that is refused until it is not."""
    async with asyncio.timeout(BOUND_S):
        while True:
            with suppress(StoreUnavailable):
                return await step()
            await asyncio.sleep(0.05)


async def assert_all_refused(store: Store, reason: str) -> None:
    """Every operation says so at once, and says why."""
    for operation in OPERATIONS.values():
        with pytest.raises(StoreUnavailable, match=reason):
            await asyncio.wait_for(operation(store), BOUND_S)


async def assert_sound(rig: Rig, store: Store) -> None:
    """Calls go on, nothing is left of those that were refused, and everything agrees."""
    assert await eventually(lambda: store.take(WORKSPACE, 1_000))
    await eventually(store.upkeep)
    assert rig.place.holds() == []
    assert await store.hold(request("after")) == Hold(63_400, 100)
    await store.settle(booking("after"))
    await store.upkeep()
    assert "after" in rig.place.rows()
    assert await rig.place.discrepancies() == []


# Redis that can't be asked.


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
            await store.settle(booking("in flight"))
        rig.server.start()
        await eventually(store.upkeep)
        assert rig.place.rows().keys() == {"in flight"}
        await assert_sound(rig, store)


async def test_while_redis_is_frozen_calls_are_refused_and_then_go_on(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("in flight"))
    rig.server.freeze()
    await assert_all_refused(store, "no answer within")
    with pytest.raises(StoreUnavailable):
        await store.settle(booking("in flight"))
    rig.server.thaw()
    await eventually(store.upkeep)
    assert rig.place.rows().keys() == {"in flight"}
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
    assert rig.place.used(EVER) == Used(1_560, 1, 0, 0)


async def test_a_redis_that_is_slow_is_refused_like_one_that_is_silent(rig: Rig) -> None:
    store = await rig.open()
    rig.server.command("CLIENT", "PAUSE", 60_000, "WRITE")
    await assert_all_refused(store, "no answer within")
    rig.server.command("CLIENT", "UNPAUSE")
    await assert_sound(rig, store)


async def test_a_redis_that_runs_somebodys_endless_script_is_refused(rig: Rig) -> None:
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
    """Wait until takes are refused, and return why."""
    async with asyncio.timeout(BOUND_S):
        while True:
            try:
                await store.take(WORKSPACE, 1_000)
            except StoreUnavailable as error:
                return str(error)


async def test_a_redis_out_of_memory_refuses_new_calls_but_ends_those_in_flight(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("settled"))
    await store.hold(request("voided"))
    rig.server.command("CONFIG", "SET", "maxmemory", 1)
    await assert_all_refused(store, "maxmemory")
    await store.settle(booking("settled"))
    await store.void("voided")
    assert rig.place.holds() == []
    rig.server.command("CONFIG", "SET", "maxmemory", 0)
    await assert_sound(rig, store)
    assert rig.place.rows().keys() == {"settled", "after"}


async def test_a_read_only_replica_is_refused(rig: Rig) -> None:
    store = await rig.open()
    rig.server.command("REPLICAOF", "127.0.0.1", 1)
    await assert_all_refused(store, "read only replica")
    rig.server.command("REPLICAOF", "NO", "ONE")
    await assert_sound(rig, store)


async def test_a_redis_that_forgot_the_scripts_is_given_them_again(rig: Rig) -> None:
    store = await rig.open()
    await store.take(WORKSPACE, 1)
    rig.server.command("SCRIPT", "FLUSH")
    await assert_sound(rig, store)


async def test_a_redis_that_may_evict_keys_is_not_used(rig: Rig) -> None:
    rig.server.command("CONFIG", "SET", "maxmemory", "100mb")
    rig.server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    with pytest.raises(StoreUnavailable, match="set maxmemory-policy to noeviction"):
        await rig.open()


async def test_no_message_has_the_password(start_redis: StartRedis, tmp_path: Path) -> None:
    server = start_redis(password="hunter2")
    for url in (server.url.replace("hunter2", "hunter3"), server.url.replace(":hunter2@", "")):
        store = RedisStore(tmp_path / "var" / "tollgate.db", SecretStr(url))
        for operation in OPERATIONS.values():
            with pytest.raises(StoreUnavailable) as refused:
                await operation(store)
            assert "hunter" not in str(refused.value)
        await store.close()
    with pytest.raises(StoreUnavailable, match=r"state\.redis_url can't be understood"):
        RedisStore(tmp_path / "var" / "tollgate.db", SecretStr("redis://:hunter2@host:port/0"))


# What was not answered, and may be done yet.


async def test_a_hold_that_was_given_up_is_released_although_redis_places_it_later(rig: Rig) -> None:
    store = await rig.open()
    await store.take(WORKSPACE, 10)
    await store.hold(request("warm"))
    await store.void("warm")
    rig.server.freeze()
    with pytest.raises(StoreUnavailable):
        await store.hold(request("a"))
    rig.server.thaw()
    await eventually(store.upkeep)
    assert rig.place.holds() == []
    assert rig.place.used_now(all_counters()) == [Used()] * 6


async def test_a_hold_that_arrives_after_its_release_is_not_placed(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    await store.void("a")
    with pytest.raises(StoreUnavailable, match="can't be held: ended"):
        await store.hold(request("a"))
    assert rig.place.holds() == []


async def test_a_hold_whose_caller_leaves_is_released(rig: Rig) -> None:
    store = await rig.open()
    await store.take(WORKSPACE, 10)
    for number in range(40):
        call = asyncio.create_task(store.hold(request(f"call-{number}")))
        for _ in range(number % 8):
            await asyncio.sleep(0)
        call.cancel()
        with suppress(asyncio.CancelledError):
            if await call:
                await store.void(f"call-{number}")
    await eventually(store.upkeep)
    assert rig.place.holds() == []
    assert rig.place.used_now(all_counters()) == [Used()] * 6
    await assert_sound(rig, store)


async def test_no_caller_gets_the_answer_to_anothers_question_and_no_connection_is_lost(rig: Rig) -> None:
    client = RedisClient(SecretStr(rig.server.url))
    dice = random.Random(1)

    async def echo(text: str) -> bool:
        async with client.bounded():
            return bool(await client.command("ECHO", text) == text)

    for turn in range(60):
        calls = [asyncio.create_task(echo(f"{turn}-{number}")) for number in range(50)]
        for _ in range(dice.randint(0, 12)):
            await asyncio.sleep(0)
        for call in dice.sample(calls, 25):
            call.cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert {answer for answer in answers if not isinstance(answer, asyncio.CancelledError)} <= {True}
    assert all(await asyncio.gather(*(echo(f"after-{number}") for number in range(3 * CONNECTIONS))))
    await client.close()


async def test_a_settlement_that_was_not_answered_counts_once(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    rig.server.freeze()
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await store.settle(booking("a"))
    rig.server.thaw()
    await eventually(store.upkeep)
    await store.upkeep()
    assert rig.place.rows().keys() == {"a"}
    assert rig.place.used(EVER) == Used(1_560, 1, 0, 0)
    assert rig.place.entries() == {"a": -1_560}


async def test_what_could_not_be_settled_is_settled_when_the_store_closes(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    rig.server.freeze()
    with pytest.raises(StoreUnavailable):
        await store.settle(booking("a"))
    rig.server.thaw()
    await eventually(lambda: store.take(WORKSPACE, 1_000))
    await store.close()
    assert rig.place.rows().keys() == {"a"}


async def test_a_booking_that_closing_can_not_make_is_logged_for_hand(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    rig.server.stop()
    with pytest.raises(StoreUnavailable):
        await store.settle(booking("a", end_user="somebody@example.com"))
    await store.close()
    assert "a ledger row is lost" in caplog.text
    assert "'retail_nanousd': 1560" in caplog.text
    assert "somebody" not in caplog.text
    rig.server.start()


# Redis that comes back empty.


async def test_an_emptied_redis_is_noticed_by_every_operation_and_rebuilt_from_the_ledger(rig: Rig) -> None:
    store = await rig.open()
    await store.credit(credit("c", USD))
    await store.hold(request("a", wallet()))
    await store.settle(booking("a"))
    await store.upkeep()
    before = rig.place.used_now(all_counters())
    rig.server.flush()
    await assert_all_refused(store, "Redis came back empty; run `tollgate state rebuild`")
    with pytest.raises(StoreUnavailable):
        await store.settle(booking("b"))
    url = SecretStr(rig.server.url)
    assert (await rebuild_state(url, rig.place.path)).workspaces == 1
    assert rig.place.used_now(all_counters()) == before
    await eventually(store.upkeep)
    assert rig.place.rows().keys() == {"a", "b"}
    assert not await store.credit(credit("c", USD))
    await assert_sound(rig, store)


async def test_an_emptied_redis_lets_no_workspace_in_that_is_new(rig: Rig) -> None:
    store = await rig.open()
    await store.take("acme", 1)
    rig.server.flush()
    with pytest.raises(StoreUnavailable, match="came back empty"):
        await store.take("unheard-of", 1)


async def test_an_emptied_redis_is_noticed_at_the_next_start(rig: Rig) -> None:
    store = await rig.open()
    await store.settle(booking("a"))
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
    await store.settle(booking("a"))
    await store.upkeep()
    rig.server.flush()
    await rig.open(rig.elsewhere(tmp_path))
    await assert_all_refused(store, "another state than the one that this ledger has worked with")


async def test_a_workspace_whose_state_is_gone_is_refused_and_the_others_are_not(rig: Rig) -> None:
    store = await rig.open()
    await store.take("acme", 10)
    await store.take("bare", 10)
    rig.server.command("DEL", "tollgate:{acme}:state")
    with pytest.raises(StoreUnavailable, match="lost a part"):
        await store.take("acme", 10)
    assert await store.take("bare", 10)


async def test_a_redis_that_came_back_older_is_refused_until_it_is_rebuilt(rig: Rig) -> None:
    store = await rig.open()
    await store.credit(credit("a", USD))
    rig.server.command("SAVE")
    await store.hold(request("spent"))
    await store.settle(booking("spent", 1_000))
    await store.check()
    rig.server.kill()
    rig.server.start()
    refused = await refusal_of(store, "as it was some time ago")
    assert "state rebuild" in refused
    with pytest.raises(StoreUnavailable, match="some time ago"):
        await store.take(WORKSPACE, 10)
    with pytest.raises(StoreUnavailable, match="came back empty"):
        await rig.open()  # A process that never saw what is missing does not trust it either.
    await rebuild_state(SecretStr(rig.server.url), rig.place.path)
    await eventually(store.upkeep)
    assert await store.take(WORKSPACE, 10)
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
        async with client.bounded():
            await state.resolve("bare")
            await state.resolve("bare")
            rig.server.command("DEL", "tollgate:{bare}:state")
            with pytest.raises(StoreUnavailable, match="lost a part"):
                await state.resolve("bare")
    await client.close()


async def test_a_ledger_with_calls_is_counted_before_redis_is_used(rig: Rig) -> None:
    alone = Place(rig.place.path)
    first = alone.open()
    await first.credit(credit("c", USD))
    await first.settle(booking("a", 400))
    await first.close()
    with pytest.raises(StoreUnavailable, match=r"does not count; run `tollgate state rebuild`"):
        await rig.open()
    await rebuild_state(SecretStr(rig.server.url), rig.place.path)
    store = await rig.open()
    assert rig.place.used(wallet_counter(WORKSPACE)) == Used(400 - USD)
    await store.settle(booking("b", 50))
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
    await store.settle(booking("done"))
    for name in ("tollgate:{acme}:spend:key:acme/ci:ever", "tollgate:{acme}:spend:wallet:acme:ever"):
        rig.server.command("HSET", name, "spent", 7, "held", 7)
    assert len(await rig.place.discrepancies()) == 4
    for _ in range(2):
        rebuilt = await rebuild_state(SecretStr(rig.server.url), rig.place.path)
        assert (rebuilt.workspaces, rebuilt.holds) == (1, 1)
    assert await rig.place.discrepancies() == []
    await eventually(store.upkeep)
    await store.settle(booking("a"))
    assert rig.place.used(EVER) == Used(3_120, 2, 0, 0)
    await assert_sound(rig, store)


async def test_calls_in_flight_while_redis_is_emptied_hold_their_money_again(rig: Rig) -> None:
    store = await rig.open()
    limit = Limit("spend_cap", EVER, 63_400)
    assert await store.hold(request("a", limit)) == Hold(63_400, 100)
    rig.server.flush()
    with pytest.raises(StoreUnavailable):
        await store.upkeep()
    await rebuild_state(SecretStr(rig.server.url), rig.place.path)
    await eventually(store.upkeep)
    assert rig.place.used(EVER) == Used(0, 0, 63_400, 1)
    assert await store.hold(request("b", limit)) == Denial("budget_of_prompt")
    await die(store)
    heir = await rig.open()
    await heir.upkeep()
    assert rig.place.rows()["a"]["error_code"] == "interrupted"
    assert await rig.place.discrepancies() == []


async def test_rebuilding_an_emptied_redis_does_not_give_the_last_minutes_tokens_back(rig: Rig) -> None:
    store = await rig.open()
    for number in range(3):
        assert await store.take(WORKSPACE, 4)
        await store.settle(booking(f"a-{number}", created_at=iso(datetime.now(UTC))))
    await store.upkeep()
    rig.server.flush()
    await rebuild_state(SecretStr(rig.server.url), rig.place.path)
    assert await eventually(lambda: store.take(WORKSPACE, 4))
    assert not await store.take(WORKSPACE, 4)


# One ledger.


async def test_a_row_whose_gateway_died_before_writing_it_is_written_by_the_next(rig: Rig) -> None:
    store = await rig.open()
    for number in range(5):
        await store.settle(booking(f"a-{number}"))
    await die(store)
    heir = await rig.open()
    await heir.upkeep()
    assert rig.place.rows().keys() == {f"a-{number}" for number in range(5)}
    assert rig.server.command("XLEN", "tollgate:{acme}:outbox") == 0


async def test_a_row_that_was_read_by_a_gateway_that_died_is_written_by_the_next(rig: Rig) -> None:
    store = await rig.open()
    await store.settle(booking("a"))
    await die(store)
    outbox = "tollgate:{acme}:outbox"
    read = rig.server.command("XREADGROUP", "GROUP", "ledger", "gateway", "STREAMS", outbox, ">")
    assert read
    assert rig.place.rows() == {}
    assert await drain(SecretStr(rig.server.url), rig.place.path) == 1
    assert rig.place.rows().keys() == {"a"}
    assert await drain(SecretStr(rig.server.url), rig.place.path) == 0


async def test_a_row_that_a_killed_neighbour_had_read_is_written_at_once(rig: Rig) -> None:
    store, neighbour = await rig.open(), await rig.open()
    for one in (store, neighbour):
        await one.upkeep()
    await neighbour.settle(booking("a"))
    rig.server.command("XREADGROUP", "GROUP", "ledger", "gateway", "STREAMS", "tollgate:{acme}:outbox", ">")
    await die(neighbour)
    await store.upkeep()
    assert rig.place.rows().keys() == {"a"}


async def test_a_row_that_is_read_twice_is_written_once(rig: Rig) -> None:
    store = await rig.open()
    await store.settle(booking("a"))
    packed = rig.server.command("XRANGE", "tollgate:{acme}:outbox", "-", "+")
    for _, fields in packed or ():
        rig.server.command(
            "XADD", "tollgate:{acme}:outbox", "*", *[w for pair in fields.items() for w in pair]
        )
    await store.upkeep()
    await drain(SecretStr(rig.server.url), rig.place.path)
    assert rig.place.rows().keys() == {"a"}
    assert rig.place.entries() == {"a": -1_560}


async def test_all_machines_share_limits_and_one_of_them_has_the_ledger(rig: Rig, tmp_path: Path) -> None:
    store = await rig.open()
    elsewhere = rig.elsewhere(tmp_path)
    far = await rig.open(elsewhere)
    limit = Limit("spend_cap", EVER, 63_400 + 1_624)
    assert isinstance(await store.hold(request("near", limit)), Hold)
    assert await far.hold(request("far", limit)) == Hold(1_624, 1)
    assert await store.hold(request("none", limit)) == Denial("budget_of_prompt")
    await far.settle(booking("far", 900))
    await far.upkeep()
    await store.settle(booking("near", 800))
    await store.upkeep()
    assert rig.place.rows().keys() == {"near", "far"}
    assert elsewhere.rows() == {}
    assert rig.place.used(EVER) == Used(1_700, 2, 0, 0)
    with pytest.raises(StoreUnavailable, match="booked in another ledger"):
        await drain(SecretStr(rig.server.url), elsewhere.path)
    await far.settle(booking("later"))
    assert await drain(SecretStr(rig.server.url), elsewhere.path, take_over=True) == 1
    assert elsewhere.rows().keys() == {"later"}


async def test_the_calls_of_another_machine_end_when_its_lease_is_over(rig: Rig, tmp_path: Path) -> None:
    store = await rig.open()
    elsewhere = rig.elsewhere(tmp_path)
    far = await rig.open(elsewhere)
    await far.hold(request("a"))
    await die(far)
    await store.upkeep()
    assert rig.place.holds() == ["a"], "its machine may be alive"
    [lease] = rig.server.command("ZRANGE", "{tollgate}:leases", 0, -1)
    rig.server.command("ZADD", "{tollgate}:leases", 1, lease)
    await store.upkeep()
    assert rig.place.holds() == []
    assert rig.place.rows()["a"]["error_code"] == "interrupted"
    assert rig.server.command("ZCARD", "{tollgate}:leases") == 0


async def test_a_process_that_was_frozen_past_its_lease_takes_another_before_it_holds(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    assert isinstance(store, RedisStore)
    ended = ("1", time.monotonic())
    store._leases._ends[WORKSPACE] = ended
    assert isinstance(await store.hold(request("b")), Hold)
    assert store._leases._ends[WORKSPACE] != ended


async def test_upkeep_without_the_folder_of_its_processes_is_refused_and_nobody_is_taken_for_dead(
    rig: Rig,
) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    owners = rig.place.path.with_name("tollgate.db-owners")
    owners.rename(owners.with_suffix(".away"))
    with pytest.raises(StoreUnavailable, match="no such file"):
        await store.upkeep()
    assert rig.place.holds() == ["a"]
    owners.with_suffix(".away").rename(owners)
    await store.upkeep()


# Numbers.


@pytest.mark.parametrize("limit_rpm", [60, 400, 401, 1_000, 100_000])
async def test_a_full_bucket_takes_less_than_64_kib(rig: Rig, limit_rpm: int) -> None:
    store = await rig.open()
    takes = "tollgate:{acme}:takes"
    assert await store.take(WORKSPACE, limit_rpm)
    # The fullest that it can get, without waiting a minute: a group in each slice.
    seconds, micros = map(int, rig.server.command("TIME"))
    now = seconds * 1_000_000 + micros
    rig.server.command("DEL", takes)
    groups = min(limit_rpm, 401)
    for number in range(groups):
        at = now - 59_000_000 + number * 147_000
        rig.server.command("ZADD", takes, at, f"{10**11 + number * 250:015}:250:{at}")
    for _ in range(5):
        await store.take(WORKSPACE, 10**9)
    assert rig.server.command("ZCARD", takes) <= 401
    assert rig.server.command("MEMORY", "USAGE", takes, "SAMPLES", 0) < 64 * 1024
    assert 0 < rig.server.command("PTTL", takes) <= 61_000


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
    assert await store.take(WORKSPACE, 2)
    await shift(rig, -30_000_000)
    assert await store.take(WORKSPACE, 2)
    assert not await store.take(WORKSPACE, 2)
    await shift(rig, -31_000_000)
    assert await store.take(WORKSPACE, 2)
    assert not await store.take(WORKSPACE, 2)


async def test_after_an_idle_minute_there_is_a_full_burst(rig: Rig) -> None:
    store = await rig.open()
    for _ in range(2):
        assert [await store.take(WORKSPACE, 500) for _ in range(501)] == [True] * 500 + [False]
        await shift(rig, -61_000_000)


async def test_a_clock_that_goes_back_lets_nothing_through_and_locks_nobody_out_for_more_than_a_minute(
    rig: Rig,
) -> None:
    store = await rig.open()
    assert [await store.take(WORKSPACE, 3) for _ in range(2)] == [True, True]
    await shift(rig, 3_600_000_000)
    assert [await store.take(WORKSPACE, 3) for _ in range(2)] == [True, False]
    await shift(rig, -61_000_000)
    assert [await store.take(WORKSPACE, 3) for _ in range(4)] == [True, True, True, False]


async def test_counters_of_periods_that_end_vanish_and_those_for_ever_stay(rig: Rig) -> None:
    store = await rig.open()
    await store.hold(request("a"))
    await store.settle(booking("a"))
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
