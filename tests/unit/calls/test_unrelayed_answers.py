"""Answers that are read without their clients: bounded in number and in time, and ended by a close."""

import asyncio
from collections.abc import Callable

import pytest
from rig.bounds import BOUND_S

from addon.calls import unrelayed_answers
from addon.calls.unrelayed_answers import MAX_WHOLE_ANSWERS, UnrelayedAnswers


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
