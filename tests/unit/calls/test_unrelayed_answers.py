"""Answers that are read without their clients: bounded in number and in time, and ended by a close."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rig.attempt_runs import KEY
from rig.bounds import BOUND_S
from rig.call_stages import call_at, make_dependencies
from rig.provider import Peer, Provider
from rig.scripts import chunk
from rig.upstream_pool import REQUEST, acquire, pool_of

from addon.answers.context import AnswerContext
from addon.calls import unrelayed_answers
from addon.calls.unrelayed_answers import MAX_WHOLE_ANSWERS, STREAM_MAX_BYTES, UnrelayedAnswers
from addon.dialects import openai
from addon.settings.settings import Settings
from addon.upstream.connection import HIGH_WATER_BYTES
from policies.call_stages import Stage
from policies.family import Family


async def read(answers: UnrelayedAnswers, name: object, ended: list[object], *, whole: bool) -> None:
    """Read until the reading is ended."""
    try:
        async with answers.reading(whole=whole):
            await asyncio.Event().wait()
    except TimeoutError:
        ended.append(name)


@pytest.fixture
async def begin():
    """Return a function that begins a reader in a task. All of them end with the test."""
    async with asyncio.TaskGroup() as tasks:
        answers, ended = UnrelayedAnswers(), []

        def begin(name: object, *, whole: bool) -> asyncio.Task[None]:
            return tasks.create_task(read(answers, name, ended, whole=whole))

        yield begin, answers, ended
        answers.close()


type Begin = tuple[Callable[..., asyncio.Task[None]], UnrelayedAnswers, list[object]]


async def test_beyond_the_most_whole_answers_the_oldest_ends(begin: Begin) -> None:
    start, _, ended = begin
    tasks = [start(number, whole=True) for number in range(MAX_WHOLE_ANSWERS)]
    start("stream", whole=False)
    await asyncio.sleep(0)
    assert ended == []
    start("one more", whole=True)
    await asyncio.wait_for(tasks[0], BOUND_S)
    start("another", whole=True)
    await asyncio.wait_for(tasks[1], BOUND_S)
    assert ended == [0, 1]


@pytest.mark.parametrize(("whole", "bound"), [(True, "WHOLE_TIMEOUT_S"), (False, "STREAM_TIMEOUT_S")])
async def test_a_reader_that_takes_too_long_ends(
    whole: bool, bound: str, monkeypatch: pytest.MonkeyPatch, begin: Begin
) -> None:
    monkeypatch.setattr(unrelayed_answers, bound, 0.01)
    start, _, ended = begin
    await asyncio.wait_for(start("reader", whole=whole), BOUND_S)
    assert ended == ["reader"]


async def test_close_ends_all_and_none_can_begin_after_it(begin: Begin) -> None:
    start, answers, ended = begin
    tasks = [start(name, whole=True) for name in ("a", "b")]
    await asyncio.sleep(0)
    answers.close()
    await asyncio.wait_for(asyncio.gather(*tasks), BOUND_S)
    assert ended == ["a", "b"]
    with pytest.raises(TimeoutError):
        async with answers.reading(whole=True):
            pass


async def test_a_stream_is_read_on_for_its_bound_of_bytes_at_most(
    attempt_settings: Settings, tmp_path: Path
) -> None:
    deps = make_dependencies(attempt_settings, tmp_path / "tollgate.db")
    call = await call_at(Stage.DISPATCHED, deps, KEY, stream=True)
    event = b"data: %b\n\n" % json.dumps(chunk("x" * 1_000)).encode()
    body = event * (3 * STREAM_MAX_BYTES // len(event))

    async def answer(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        connection.send(REQUEST, b"{}")
        await connection.head()
        reader = call.attempt.reader = openai.stream(AnswerContext("slug", Family("plain")))
        call.attempt.streams = True
        await unrelayed_answers._read_rest(call, call.attempt, connection, deps.clock)
        read_bytes = reader.relayed_text_chars // 1_000 * len(event)
        assert STREAM_MAX_BYTES - len(event) <= read_bytes <= STREAM_MAX_BYTES + 8 * HIGH_WATER_BYTES
        connection.release()
    await deps.in_flight.abandon(call)
    await deps.in_flight.close()
    await deps.pool.close()
    await deps.store.close()
