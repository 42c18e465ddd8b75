"""The rates in one Redis: tokens, circuits, and whose they are."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
from pydantic import SecretStr
from rig.redis_server import RedisServer

from addon.store.rates.redis.rates import OtherLedger, RedisRates
from policies.circuit_breaker import Circuit
from policies.token_bucket import GROUPS

RPM = 3

type OpenRates = Callable[..., RedisRates]


@pytest.fixture
async def open_rates(redis_server: RedisServer) -> AsyncIterator[OpenRates]:
    async with AsyncExitStack() as opened:

        def make(ledger: str = "ledger", fleet: str = "tolls") -> RedisRates:
            rates = RedisRates(SecretStr(redis_server.url), lambda: ledger, fleet)
            opened.push_async_callback(rates.close)
            return rates

        yield make


async def test_all_gateways_share_the_tokens_of_a_workspace(open_rates: OpenRates) -> None:
    here, there = open_rates(), open_rates()
    waits = await asyncio.gather(*(one.take_token("acme", RPM) for one in (here, there) * RPM))
    assert sorted(wait == 0 for wait in waits) == [False] * RPM + [True] * RPM
    assert all(0 < wait <= 60_000_000 for wait in waits if wait)
    assert await there.take_token("another", RPM) == 0


async def test_the_workspaces_without_a_token_are_known_until_they_have_one(
    open_rates: OpenRates, redis_server: RedisServer
) -> None:
    rates = open_rates()
    for _ in range(2):
        await rates.take_token("acme", 1)
    assert rates.empty_buckets == {"acme"}
    redis_server.flush()
    await rates.take_token("acme", 1)
    assert rates.empty_buckets == set()


async def test_a_limit_that_is_lowered_waits_for_the_group_that_makes_room(open_rates: OpenRates) -> None:
    rates = open_rates()
    assert [await rates.take_token("acme", 10) for _ in range(10)] == [0] * 10
    first, lowered = await rates.take_token("acme", 10), await rates.take_token("acme", 1)
    assert 0 < first < lowered <= 60_000_000


async def test_a_redis_that_forgets_everything_gives_one_more_minute_and_is_claimed_again(
    open_rates: OpenRates, redis_server: RedisServer
) -> None:
    rates = open_rates()
    await rates.check()
    assert [await rates.take_token("acme", 1) == 0 for _ in range(2)] == [True, False]
    redis_server.flush()
    assert [await rates.take_token("acme", 1) == 0 for _ in range(2)] == [True, False]
    await rates.check()
    with pytest.raises(OtherLedger):
        await open_rates("another ledger").check()


async def test_a_gateway_of_another_ledger_is_told_to_share_one(open_rates: OpenRates) -> None:
    await open_rates("ledger", "tolls").check()
    with pytest.raises(
        OtherLedger, match=r'another ledger, of the fleet "tolls"; .* the same \[ledger\] url'
    ):
        await open_rates("another ledger", "tolls").check()
    with pytest.raises(OtherLedger, match=r'of the fleet "tolls", and \[state\] fleet is "renamed" here'):
        await open_rates("ledger", "renamed").check()
    await open_rates("ledger").check()


async def test_every_key_expires_by_itself(open_rates: OpenRates, redis_server: RedisServer) -> None:
    rates = open_rates()
    await rates.check()
    for _ in range(2):
        await rates.take_token("acme", GROUPS + 1)
    await rates._circuits._table.change("GROQ/payg/acme", lambda _, now_us: Circuit(1, now_us, 0))
    keys = redis_server.command("KEYS", "*")
    assert sorted(keys) == ["tollgate:{acme}:tokens", "{tollgate}:circuits", "{tollgate}:rates"]
    assert {key: 0 < redis_server.command("PTTL", key) <= 86_400_000 for key in keys} == dict.fromkeys(
        keys, True
    )
    assert redis_server.command("PTTL", "tollgate:{acme}:tokens") <= 61_000


async def test_a_circuit_is_changed_in_one_step_however_many_gateways_change_it(
    open_rates: OpenRates,
) -> None:
    gateways = [open_rates() for _ in range(4)]

    def fail(before: Circuit, now_us: int) -> Circuit:
        return Circuit(before.failures + 1, now_us, 0)

    await asyncio.gather(*(one._circuits._table.change("GROQ/payg/acme", fail) for one in gateways))
    found = await gateways[0]._circuits._table.read()
    assert found.circuits["GROQ/payg/acme"].failures == len(gateways)
    assert found.now_us >= found.circuits["GROQ/payg/acme"].began_us
