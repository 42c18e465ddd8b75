"""The circuits in Redis: a frozen server, and the format of another version."""

import pytest
import redis
from pydantic import SecretStr
from rig.redis_stores import Rig, assert_sound

from addon.store.protocol import StoreUnavailable
from addon.store.rates.redis.circuits import RedisCircuits
from addon.store.rates.redis.keys import CIRCUITS
from addon.store.redis.client import RedisClient
from policies.circuit_breaker import FAILURES, REST_US, Circuit


async def test_while_redis_is_frozen_circuits_block_no_call(rig: Rig) -> None:
    store = await rig.open()
    for _ in range(FAILURES):
        await store.record_attempt("OPENAI/payg/acme", failed=True)
    rig.location.age_circuits(REST_US / 1e6)
    await store.maintain()
    rig.server.freeze()
    assert await store.circuit_allows("OPENAI/payg/acme", "call"), "a probe that can't be recorded"
    await store.record_attempt("OPENAI/payg/acme", failed=False)
    rig.server.thaw()
    await assert_sound(rig, store)


async def test_a_circuit_in_the_format_of_another_version_is_closed(rig: Rig) -> None:
    store = await rig.open()
    with redis.Redis.from_url(rig.server.url) as client:
        client.hset(CIRCUITS, mapping={"OPENAI": "open until Monday", "GROQ": "5:1"})
    await store.maintain()
    assert store.open_circuits() == frozenset()
    assert await store.circuit_allows("OPENAI/payg/acme", "call")
    for _ in range(4 * FAILURES):  # Redis has a short time for each, and a busy machine misses it.
        await store.record_attempt("GROQ/payg/acme", failed=True)
    assert store.open_circuits() == {"GROQ/payg/acme"}
    await assert_sound(rig, store)


async def test_a_circuit_that_others_change_all_the_time_is_given_up(rig: Rig) -> None:
    client = RedisClient(SecretStr(rig.server.url))
    tries: list[Circuit] = []

    def change_after_another(before: Circuit, now_us: int) -> Circuit:
        tries.append(before)
        another.hset(CIRCUITS, "OPENAI/payg/acme", f"1:{len(tries)}:0")
        return Circuit(2, now_us, 0)

    with (
        redis.Redis.from_url(rig.server.url) as another,
        pytest.raises(StoreUnavailable, match="too many processes change a circuit"),
    ):
        await RedisCircuits(client).change("OPENAI/payg/acme", change_after_another)
    assert len(tries) == 8
    await client.close()


async def test_circuits_are_kept_for_a_day_after_their_last_change(rig: Rig) -> None:
    client = RedisClient(SecretStr(rig.server.url))
    await RedisCircuits(client).change("OPENAI/payg/acme", lambda _, now_us: Circuit(1, now_us, 0))
    assert 86_000_000 < rig.server.command("PTTL", CIRCUITS) <= 86_400_000
    await client.close()
