"""The Redis client: scripts, credentials and answers that come too late."""

import asyncio
import random
from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.redis_fixtures import StartRedis
from rig.redis_stores import OPERATIONS, Rig, assert_sound
from rig.stores import WORKSPACE, takes

from addon.store.protocol import StoreUnavailable
from addon.store.redis.client import CONNECTIONS, RedisClient
from addon.store.redis.store import RedisStore


async def test_a_redis_that_forgot_the_scripts_gets_them_again(rig: Rig) -> None:
    store = await rig.open()
    await takes(store, WORKSPACE, 1)
    rig.server.command("SCRIPT", "FLUSH")
    await assert_sound(rig, store)


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


async def test_no_caller_gets_the_answer_to_another_command_and_no_connection_is_lost(rig: Rig) -> None:
    client = RedisClient(SecretStr(rig.server.url))
    dice = random.Random(1)

    async def echo(text: str) -> bool:
        async with client.timeout():
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
