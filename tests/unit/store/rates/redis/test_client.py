"""The client of scripts: what it repeats, what it refuses at once, and that every wait ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretStr
from rig.redis_fixtures import StartRedis
from rig.redis_server import RedisServer
from rig.redis_speaker import OK, all_slots_at, serving, speaking
from rig.server_process import free_port

from addon.store.protocol import StoreUnavailable
from addon.store.rates.redis.client import ScriptClient
from addon.store.rates.redis.keys import IDENTITY, takes_of
from addon.store.rates.redis.rates import RedisRates
from addon.store.rates.redis.scripts import TAKE_TOKEN, bucket_arguments

PASSWORD = "obviously-fake-password"


async def take(client: ScriptClient, workspace: str = "acme") -> str:
    answer = await client.run(TAKE_TOKEN, [takes_of(workspace)], *bucket_arguments(1_000))
    return str(answer[0])


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[ScriptClient]:
    client = ScriptClient(SecretStr(url))
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def refusing(*errors: str) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Serve as a Redis that gives these errors to scripts in turn and then takes. Give the port and what was asked."""
    left, asked, ports = list(errors), [], []

    def say(command: list[bytes]) -> bytes:
        if command[0] == b"CLUSTER":
            return all_slots_at(ports[0])
        if not command[0].startswith((b"EVAL", b"ASKING")):
            return OK
        asked.append(command[0])
        if command[0] == b"ASKING":
            return OK
        return f"-{left.pop(0)}\r\n".encode() if left else b"*1\r\n$5\r\ntaken\r\n"

    async with speaking(say) as port:
        ports.append(port)
        yield port, asked


@pytest.mark.parametrize(
    "answer",
    [
        "LOADING Redis is loading the dataset in memory",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "READONLY You can't write against a read only replica.",
        "CLUSTERDOWN The cluster is down",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "NOREPLICAS Not enough good replicas to write.",
    ],
)
async def test_what_redis_can_not_do_now_is_asked_again(answer: str) -> None:
    async with refusing(answer, answer) as (port, asked), opened(f"redis://127.0.0.1:{port}") as client:
        assert await take(client) == "taken"
        assert asked == [b"EVALSHA"] * 3


@pytest.mark.parametrize(
    "answer",
    ["OOM command not allowed when used memory > 'maxmemory'.", "NOPERM no permissions", "ERR wrong"],
)
async def test_what_redis_refuses_is_refused_at_once(answer: str) -> None:
    async with refusing(answer) as (port, asked), opened(f"redis://127.0.0.1:{port}") as client:
        with pytest.raises(StoreUnavailable, match=answer.split()[-1].rstrip(".")):
            await take(client)
        assert asked == [b"EVALSHA"]


@pytest.mark.parametrize(("kind", "expected"), [("MOVED", [b"EVALSHA"]), ("ASK", [b"ASKING", b"EVALSHA"])])
async def test_a_slot_is_followed_to_where_a_node_says_it_is(kind: str, expected: list[bytes]) -> None:
    async with refusing() as (new, asked), refusing(f"{kind} 1 127.0.0.1:{new}") as (old, _):
        async with opened(f"redis+cluster://127.0.0.1:{old}") as client:
            assert await take(client) == "taken"
        assert asked == expected


async def test_a_node_of_a_cluster_is_not_taken_for_the_only_server() -> None:
    async with refusing("MOVED 1 127.0.0.1:9") as (port, _), opened(f"redis://127.0.0.1:{port}") as client:
        with pytest.raises(
            StoreUnavailable, match=r"a node of a cluster, whose URL begins with redis\+cluster://"
        ):
            await take(client)


async def test_a_script_without_an_answer_runs_elsewhere_when_its_node_is_replaced() -> None:
    arrived = asyncio.Event()

    def say_nothing(command: list[bytes]) -> bytes:
        if command[0].startswith(b"EVAL"):
            arrived.set()
        return b"" if arrived.is_set() else OK

    async with speaking(say_nothing) as old, refusing() as (new, asked):
        said = {b"SLOTS": all_slots_at(old)}
        async with serving(said) as seed, opened(f"redis+cluster://127.0.0.1:{seed}") as client:
            waiting = asyncio.create_task(take(client))
            await arrived.wait()
            said[b"SLOTS"] = all_slots_at(new)
            await client._nodes.look()
            assert await waiting == "taken"
            assert asked == [b"EVALSHA"]


async def test_a_node_that_is_silent_is_not_blamed_for_what_was_before() -> None:
    def say(command: list[bytes]) -> bytes:
        return b"" if command[0].startswith(b"EVAL") else OK

    async with (
        speaking(say) as silent,
        serving({b"SLOTS": all_slots_at(silent)}) as seed,
        opened(f"redis+cluster://127.0.0.1:{seed}") as client,
    ):
        with pytest.raises(StoreUnavailable, match=r"no answer within 1 s$"):
            await take(client)


async def test_a_redis_that_forgot_the_scripts_gets_them_again(redis_server: RedisServer) -> None:
    client = ScriptClient(SecretStr(redis_server.url))
    for _ in range(2):
        redis_server.command("SCRIPT", "FLUSH")
        assert await take(client) == "taken"
    await client.close()


async def test_a_redis_that_restarts_is_waited_for_and_one_that_is_gone_only_once(
    start_redis: StartRedis,
) -> None:
    server = start_redis()
    client = ScriptClient(SecretStr(server.url))
    assert await take(client) == "taken"
    server.kill()
    waiting = asyncio.create_task(take(client))
    await asyncio.to_thread(server.start)
    assert await waiting == "taken"
    server.kill()
    with pytest.raises(StoreUnavailable, match=r"no answer within 1 s \(.*connecting to"):
        await take(client)
    with pytest.raises(StoreUnavailable, match=r"^Redis at \S+: Error \d+ connecting to"):
        await take(client)
    server.start()
    assert await take(client) == "taken"
    await client.close()


async def test_a_frozen_redis_is_given_up(start_redis: StartRedis) -> None:
    server = start_redis()
    client = ScriptClient(SecretStr(server.url))
    assert await take(client) == "taken"
    server.freeze()
    with pytest.raises(StoreUnavailable, match=r"no answer within 1 s$"):
        await take(client)
    server.thaw()
    assert await take(client) == "taken"
    await client.close()


@pytest.mark.parametrize("kind", ["redis+sentinel", "redis+cluster", "redis"])
async def test_nobody_at_any_address_is_an_error_without_the_password(kind: str) -> None:
    path = "/tolls" if kind == "redis+sentinel" else ""
    client = ScriptClient(SecretStr(f"{kind}://:{PASSWORD}@127.0.0.1:{free_port()}{path}"))
    with pytest.raises(StoreUnavailable, match=r"no answer within 1 s \(.*connecting to") as refused:
        await take(client)
    assert PASSWORD not in str(refused.value)
    await client.close()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (f"redis+sentinel://:{PASSWORD}@h", "the URL of Redis: service: "),
        (f"redis://:{PASSWORD}@h:port", "the URL of Redis can't be understood"),
    ],
)
def test_a_wrong_url_is_refused_by_the_name_of_its_field(url: str, reason: str) -> None:
    with pytest.raises(StoreUnavailable, match=f"^{reason}") as refused:
        RedisRates(SecretStr(url), lambda: "ledger", "tolls")
    assert PASSWORD not in str(refused.value)


async def test_a_wrong_password_is_refused_at_once_and_not_shown(start_redis: StartRedis) -> None:
    server = start_redis(password=PASSWORD)
    client = ScriptClient(SecretStr(server.url.replace(PASSWORD, "obviously-fake-other")))
    with pytest.raises(StoreUnavailable, match=r"username-password pair|invalid") as refused:
        await client.run(TAKE_TOKEN, [IDENTITY])
    assert "obviously" not in str(refused.value)
    await client.close()


async def test_another_kind_of_redis_than_the_url_says_is_named(redis_server: RedisServer) -> None:
    address = redis_server.url.removeprefix("redis://").removesuffix("/0")
    clients = [
        ScriptClient(SecretStr(url))
        for url in (f"redis+cluster://{address}", f"redis+sentinel://{address}/tolls")
    ]
    cluster, sentinel = await asyncio.gather(*map(take, clients), return_exceptions=True)
    assert "cluster support disabled" in str(cluster)
    assert "unknown command 'SENTINEL'" in str(sentinel)
    for client in clients:
        await client.close()
