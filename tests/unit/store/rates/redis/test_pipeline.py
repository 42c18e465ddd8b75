"""The connection to Redis that all calls share: one write a turn, and each answer to its own command."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, NoScriptError, ResponseError
from rig.bounds import BOUND_S
from rig.echoes import assert_no_answer_goes_to_another
from rig.large import large_only
from rig.redis_fixtures import StartRedis
from rig.redis_server import RedisServer

from addon.store.rates.redis.nodes import _open as open_pipeline
from addon.store.rates.redis.pipeline import IncompleteAnswer, Pipeline, pack_command, parse_answer


@pytest.fixture
async def pipeline(redis_server: RedisServer) -> AsyncIterator[Pipeline]:
    opened = open_pipeline(SecretStr(redis_server.url))
    yield opened
    await opened.close()


def reads(server: RedisServer) -> int:
    """Return how often the server has read from a connection."""
    return int(server.command("INFO", "stats")["total_reads_processed"])


def encode(answer: Any) -> bytes:
    """Return an answer as Redis sends it."""
    if answer is None:
        return b"$-1\r\n"
    if isinstance(answer, int):
        return b":%d\r\n" % answer
    if isinstance(answer, str):
        return b"$%d\r\n%b\r\n" % (len(answer.encode()), answer.encode())
    return b"*%d\r\n%b" % (len(answer), b"".join(map(encode, answer)))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
ANSWERS = st.recursive(st.none() | st.integers(-(2**63), 2**63 - 1) | TEXTS, st.lists)


@large_only
@given(st.lists(ANSWERS, max_size=5))
def test_answers_are_read_one_after_another(answers: list[Any]) -> None:
    data, at, found = b"".join(map(encode, answers)), 0, []
    while at < len(data):
        answer, at = parse_answer(data, at)
        found.append(answer)
    assert found == answers


@given(ANSWERS, st.data())
def test_an_answer_that_is_not_whole_is_waited_for(answer: Any, data: st.DataObject) -> None:
    sent = encode(answer)
    cut = data.draw(st.integers(0, len(sent) - 1))
    with pytest.raises(IncompleteAnswer):
        parse_answer(sent[:cut], 0)


@pytest.mark.parametrize("sent", [b"HTTP/1.1 400\r\n", b"$x\r\n", b"*1x\r\n", b"\r\n", b"$1\r\n\xff\r\n"])
def test_bytes_that_are_no_answer_are_refused(sent: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_answer(sent, 0)


def test_errors_are_those_of_the_library() -> None:
    error, _ = parse_answer(b"-NOSCRIPT No matching script\r\n", 0)
    assert isinstance(error, NoScriptError)
    error, _ = parse_answer(b"-ERR no\r\n", 0)
    assert isinstance(error, ResponseError)


@given(st.lists(TEXTS | st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_a_command_is_an_array_of_texts(words: list[str | int]) -> None:
    assert parse_answer(pack_command(words), 0)[0] == [str(word) for word in words]


async def test_the_commands_of_one_turn_are_one_write(pipeline: Pipeline, redis_server: RedisServer) -> None:
    await pipeline.run("PING")
    before = reads(redis_server)
    answers = await asyncio.gather(*(pipeline.run("ECHO", str(number)) for number in range(32)))
    between = reads(redis_server)
    assert answers == [str(number) for number in range(32)]
    # Each look at the count reads too: its connection, its command.
    look = reads(redis_server) - between
    assert between - before - look == 1


async def test_an_answer_that_arrives_in_pieces_is_put_together(pipeline: Pipeline) -> None:
    long = "".join(map(str, range(200_000)))  # More than a loop reads at a time.
    assert await asyncio.gather(pipeline.run("ECHO", long), pipeline.run("ECHO", "b")) == [long, "b"]


async def test_each_command_has_its_own_error(pipeline: Pipeline) -> None:
    asked = [
        pipeline.run("ECHO", "a"),
        pipeline.run("NOSUCH"),
        pipeline.run("GET"),
        pipeline.run("ECHO", "b"),
    ]
    first, second, third, last = await asyncio.gather(*asked, return_exceptions=True)
    assert (first, last) == ("a", "b")
    assert isinstance(second, ResponseError)
    assert "unknown command" in str(second)
    assert isinstance(third, ResponseError)
    assert "wrong number of arguments" in str(third)


async def test_no_cancelled_command_gives_its_answer_to_another(pipeline: Pipeline) -> None:
    async def echo(text: str) -> str:
        return str(await pipeline.run("ECHO", text))

    await assert_no_answer_goes_to_another(echo)
    assert await echo("after") == "after"


async def test_a_server_that_ends_fails_what_waits_and_is_found_again(start_redis: StartRedis) -> None:
    server = start_redis()
    pipeline = open_pipeline(SecretStr(server.url))
    assert await pipeline.run("PING") == "PONG"
    waiting = asyncio.create_task(pipeline.run("BLPOP", "nothing", 0))
    await asyncio.sleep(0)
    server.kill()
    with pytest.raises(RedisConnectionError, match="Connection lost"):
        await waiting
    with pytest.raises(RedisConnectionError, match="connecting to"):
        await pipeline.run("PING")
    server.start()
    assert await pipeline.run("PING") == "PONG"
    await pipeline.close()


async def test_a_late_answer_fails_all_that_wait_and_the_next_command_has_a_new_connection(
    pipeline: Pipeline,
) -> None:
    await pipeline.run("PING")
    asked = [pipeline.run("BLPOP", "nothing", 0), pipeline.run("ECHO", "behind it")]
    late = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(error) for error in late] == [TimeoutError] * 2
    assert await pipeline.run("ECHO", "next") == "next"


async def test_an_answer_that_makes_no_sense_closes_the_connection() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while commands := (await reader.read(1000)).count(b"*"):
            writer.write(b"HTTP/1.1 400 Bad Request\r\n" if asked else commands * b"+OK\r\n")
        writer.close()

    asked: list[bool] = []
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    pipeline = open_pipeline(SecretStr(f"redis://127.0.0.1:{port}/0"))
    assert await pipeline.run("PING") == "OK"
    asked.append(True)
    with pytest.raises(InvalidResponse, match="an answer makes no sense"):
        await pipeline.run("PING")
    await pipeline.close()
    server.close()
    await server.wait_closed()


async def test_a_server_that_answers_no_more_is_given_up_in_time() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while commands := (await reader.read(1000)).count(b"*"):
            if not silent:
                writer.write(commands * b"+OK\r\n")
        writer.close()

    silent: list[bool] = []
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    pipeline = open_pipeline(SecretStr(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"))
    assert await pipeline.run("PING") == "OK"
    silent.append(True)
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(TimeoutError):
            await pipeline.run("PING")
    await pipeline.close()
    server.close()
    await server.wait_closed()
