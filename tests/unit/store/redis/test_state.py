"""A Redis that comes back empty, older or with another state is noticed and refused until it is rebuilt."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.bounds import BOUND_S
from rig.redis_stores import Rig, assert_all_refused, assert_sound, eventually
from rig.stores import (
    USD,
    WORKSPACE,
    all_counters,
    credit,
    request,
    settlement,
    takes,
    wallet,
)

from addon.store.money.sqlite.file import LedgerFile
from addon.store.protocol import Store, StoreUnavailable
from addon.store.redis.client import RedisClient
from addon.store.redis.rebuild import rebuild_state
from addon.store.redis.state import TOO_OLD, RedisState
from addon.store.redis.store import RedisStore
from policies.limits import wallet_counter


async def test_an_emptied_redis_is_noticed_by_every_operation_and_rebuilt_from_the_ledger(rig: Rig) -> None:
    store = await rig.open()
    await store.credit(credit("c", USD))
    await store.hold(request("a", wallet()))
    await store.settle(settlement("a"))
    await store.maintain()
    before = rig.location.used_now(all_counters())
    rig.server.flush()
    await assert_all_refused(store, "Redis came back empty; run `tollgate state rebuild`")
    with pytest.raises(StoreUnavailable):
        await store.settle(settlement("b"))
    url = SecretStr(rig.server.url)
    assert (await rebuild_state(url, rig.location.path)).workspaces == 1
    assert rig.location.used_now(all_counters()) == before
    await eventually(store.maintain)
    assert rig.location.rows().keys() == {"a", "b"}
    assert not await store.credit(credit("c", USD))
    await assert_sound(rig, store)


async def test_an_emptied_redis_admits_no_new_workspace(rig: Rig) -> None:
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


async def test_an_empty_ledger_remembers_that_redis_was_not_empty(rig: Rig) -> None:
    await (await rig.open()).close()
    rig.server.flush()
    with pytest.raises(StoreUnavailable, match="came back empty"):
        await rig.open()


async def test_a_new_state_of_another_gateway_in_an_emptied_redis_is_refused(
    rig: Rig, tmp_path: Path
) -> None:
    store = await rig.open()
    await store.settle(settlement("a"))
    await store.maintain()
    rig.server.flush()
    await rig.open(rig.elsewhere(tmp_path))
    await assert_all_refused(store, "another state than the one that this ledger works with")


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
    refused = await refusal_of(store, "came back with older data")
    assert "state rebuild" in refused
    with pytest.raises(StoreUnavailable, match="older data"):
        await takes(store, WORKSPACE, 10)
    with pytest.raises(StoreUnavailable, match="came back empty"):
        await rig.open()  # A process that never saw the missing data refuses this state too.
    await rebuild_state(SecretStr(rig.server.url), rig.location.path)
    await eventually(store.maintain)
    assert await takes(store, WORKSPACE, 10)
    assert rig.location.used(wallet_counter(WORKSPACE)).spent_nanousd == 1_000 - USD


async def refusal_of(store: Store, reason: str) -> str:
    """Repeat until the store gives this reason. At first the reason is a closed connection."""
    async with asyncio.timeout(BOUND_S):
        while True:
            with pytest.raises(StoreUnavailable) as refused:
                await store.check()
            if reason in str(refused.value):
                return str(refused.value)


async def test_a_workspace_that_another_process_just_created_is_not_lost(rig: Rig) -> None:
    await rig.open()
    client = RedisClient(SecretStr(rig.server.url))
    with closing(LedgerFile(rig.location.path)) as file:
        state = RedisState(client, file)
        async with client.timeout():
            await state.register_workspace("bare")
            await state.register_workspace("bare")
            rig.server.command("DEL", "tollgate:{bare}:state")
            with pytest.raises(StoreUnavailable, match="lost a part"):
                await state.register_workspace("bare")
    await client.close()


async def answer_as_an_old_redis(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer INFO with an old version, and all other commands with OK."""
    facts = b"redis_version:6.2.14\r\n"
    while line := await reader.readline():
        words = []
        for _ in range(int(line[1:])):
            await reader.readline()
            words.append((await reader.readline()).strip().upper())
        writer.write(b"$%d\r\n%b\r\n" % (len(facts), facts) if words[0] == b"INFO" else b"+OK\r\n")
    writer.close()


async def test_a_redis_of_an_old_version_is_not_used(ledger_path: Path) -> None:
    server = await asyncio.start_server(answer_as_an_old_redis, "127.0.0.1", 0)
    url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    store = RedisStore(ledger_path, SecretStr(url))
    with pytest.raises(StoreUnavailable, match=TOO_OLD):
        await store.check()
    await store.close()
    server.close()
    await server.wait_closed()
