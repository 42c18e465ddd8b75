"""The Redis client: scripts, credentials and answers that come too late."""

import asyncio
from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.echoes import assert_no_answer_goes_to_another
from rig.redis_fixtures import StartRedis
from rig.redis_stores import OPERATIONS, Rig, assert_sound
from rig.stores import WORKSPACE, takes

from addon.store.protocol import StoreUnavailable
from addon.store.redis.client import CONNECTIONS, RedisClient
from addon.store.redis.store import RedisStore

TOO_SHORT_S = 0.01


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

    async def echo(text: str) -> str:
        async with client.timeout():
            return str(await client.command("ECHO", text))

    await assert_no_answer_goes_to_another(echo)
    after = [f"after-{number}" for number in range(3 * CONNECTIONS)]
    assert await asyncio.gather(*map(echo, after)) == after
    await client.close()


async def test_a_block_that_takes_too_long_is_refused() -> None:
    client = RedisClient(SecretStr("redis://127.0.0.1:9/0"))
    with pytest.raises(StoreUnavailable):
        async with client.timeout(TOO_SHORT_S):
            await asyncio.Event().wait()
    await client.close()
