"""The token buckets in Redis: their size and their clock."""

from collections.abc import AsyncIterator, Iterator

import pytest
import redis
from pydantic import SecretStr
from rig.large import sampled
from rig.redis_fleet import GATEWAY_RIGHTS, PASSWORD
from rig.redis_server import NO_RETRY, RedisServer
from rig.redis_takes import fill_takes, move_takes
from rig.stores import WORKSPACE

from addon.store.rates.redis.keys import takes_of
from addon.store.rates.redis.rates import RedisRates
from policies.model import Budget, Workspace
from policies.token_bucket import GROUPS
from policies.token_limits import TokenRequest, TokensTaken, find_budget_rates

BUCKET = takes_of(WORKSPACE)


@pytest.fixture
async def rates(redis_server: RedisServer) -> AsyncIterator[RedisRates]:
    made = RedisRates(SecretStr(redis_server.url), lambda: "ledger", "tolls")
    yield made
    await made.close()


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server.url, retry=NO_RETRY) as made:
        yield made


async def take(rates: RedisRates, limit_rpm: int, times: int = 1) -> list[bool]:
    return [await rates.take_token(WORKSPACE, limit_rpm) == 0 for _ in range(times)]


@sampled(every=3)
@pytest.mark.parametrize("limit_rpm", [60, 400, 401, 1_000, 100_000])
async def test_a_full_bucket_takes_less_than_64_kib(
    rates: RedisRates, client: redis.Redis, limit_rpm: int
) -> None:
    # The fullest bucket without waiting a minute: one group in each slice.
    fill_takes(client, WORKSPACE, min(limit_rpm, GROUPS + 1), 147_000)
    assert await take(rates, 10**9, 5) == [True] * 5
    assert client.llen(BUCKET) <= GROUPS + 1
    assert client.memory_usage(BUCKET, samples=0) < 64 * 1024
    assert 0 < client.pttl(BUCKET) <= 61_000


async def test_the_documented_rights_are_enough_for_every_bucket(
    redis_server: RedisServer, client: redis.Redis
) -> None:
    client.execute_command("ACL", "SETUSER", "gateway", "on", f">{PASSWORD}", *GATEWAY_RIGHTS.split())
    workspace = Workspace(WORKSPACE, "Acme", "pro", (), budgets=(Budget("user", None, rpm=9, tpm=900),))
    asked = TokenRequest(10, find_budget_rates(workspace, "ann", None))
    rates = RedisRates(
        SecretStr(redis_server.url.replace("://", f"://gateway:{PASSWORD}@")), lambda: "ledger", "tolls"
    )
    await rates.check()
    taken = await rates.take_tokens(asked, WORKSPACE)
    assert isinstance(taken, TokensTaken)
    await rates.settle_tokens(taken, None, WORKSPACE)
    assert await take(rates, 5) == [True]
    await rates.close()
    assert {one.decode().split(":")[2] for one in client.keys("tollgate:{acme}:*")} == {
        "tpm",
        "tokens",
        "values",
    }
    assert all(client.pttl(key) > 0 for key in client.keys("tollgate:*"))


async def test_a_token_comes_back_a_minute_after_it_was_taken(rates: RedisRates, client: redis.Redis) -> None:
    assert await take(rates, 2) == [True]
    move_takes(client, WORKSPACE, -30_000_000)
    assert await take(rates, 2, 2) == [True, False]
    move_takes(client, WORKSPACE, -31_000_000)
    assert await take(rates, 2, 2) == [True, False]


async def test_after_an_idle_minute_there_is_a_full_burst(rates: RedisRates, client: redis.Redis) -> None:
    for _ in range(2):
        assert await take(rates, 500, 501) == [True] * 500 + [False]
        move_takes(client, WORKSPACE, -61_000_000)


async def test_a_clock_that_goes_back_admits_no_extra_call_and_blocks_for_at_most_a_minute(
    rates: RedisRates, client: redis.Redis
) -> None:
    assert await take(rates, 3, 2) == [True, True]
    move_takes(client, WORKSPACE, 3_600_000_000)
    assert await take(rates, 3, 2) == [True, False]
    move_takes(client, WORKSPACE, -61_000_000)
    assert await take(rates, 3, 4) == [True, True, True, False]


async def test_takes_before_and_after_a_jump_of_the_clock_count_once(
    rates: RedisRates, client: redis.Redis
) -> None:
    assert await take(rates, 5) == [True]
    move_takes(client, WORKSPACE, -20_000_000)
    assert await take(rates, 5, 2) == [True, True]
    move_takes(client, WORKSPACE, 10_000_000)
    assert await take(rates, 5, 3) == [True, True, False]
    assert client.llen(BUCKET) == 4, "the two takes of the future are one group now"
