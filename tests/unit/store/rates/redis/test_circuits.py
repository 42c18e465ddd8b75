"""The circuits in Redis: a frozen server, the format of another version, and many writers."""

import pytest
import redis
from pydantic import SecretStr
from rig.redis_fixtures import StartRedis

from addon.store.protocol import StoreUnavailable
from addon.store.rates.redis.keys import CIRCUITS
from addon.store.rates.redis.rates import RedisRates
from policies.circuit_breaker import FAILURES, Circuit

ACME = "OPENAI/payg/acme"


def open_rates(url: str) -> RedisRates:
    return RedisRates(SecretStr(url), lambda: "ledger", "tolls")


async def test_while_redis_is_frozen_circuits_block_no_call(start_redis: StartRedis) -> None:
    server = start_redis()
    rates = open_rates(server.url)
    with redis.Redis.from_url(server.url) as client:
        client.hset(CIRCUITS, ACME, f"{FAILURES}:1:1")
    await rates.maintain()
    server.freeze()
    assert await rates.circuit_allows(ACME, "call"), "a probe that can't be recorded"
    await rates.record_attempt(ACME, failed=False)
    server.thaw()
    await rates.check()
    await rates.close()


async def test_a_circuit_in_the_format_of_another_version_is_closed(redis_url: str) -> None:
    rates = open_rates(redis_url)
    with redis.Redis.from_url(redis_url) as client:
        client.hset(CIRCUITS, mapping={"OPENAI": "open until Monday", "GROQ": "5:1"})
    await rates.maintain()
    assert rates.open_circuits() == frozenset()
    assert await rates.circuit_allows(ACME, "call")
    for _ in range(FAILURES):
        await rates.record_attempt("GROQ/payg/acme", failed=True)
    assert rates.open_circuits() == {"GROQ/payg/acme"}
    await rates.close()


async def test_a_circuit_that_others_change_all_the_time_is_given_up(redis_url: str) -> None:
    rates = open_rates(redis_url)
    tries: list[Circuit] = []

    def change_after_another(before: Circuit, now_us: int) -> Circuit:
        tries.append(before)
        another.hset(CIRCUITS, ACME, f"1:{len(tries)}:0")
        return Circuit(2, now_us, 0)

    with (
        redis.Redis.from_url(redis_url) as another,
        pytest.raises(StoreUnavailable, match="too many processes change a circuit"),
    ):
        await rates._circuits._table.change(ACME, change_after_another)
    assert len(tries) == 8
    await rates.close()
