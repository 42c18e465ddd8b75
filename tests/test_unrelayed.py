"""Answers that are read on without their clients: bounded in number and in time, and joined at a stop."""

import asyncio
from typing import Any

import pytest
from rig.bounds import BOUND_S

from addon import unrelayed
from addon.unrelayed import MAX_WHOLE_ANSWERS, UnrelayedAnswers


class Told:
    """Who was told to stop, in this order."""

    def __init__(self) -> None:
        self.readers: list[Any] = []
        self.grew = asyncio.Event()

    def __call__(self, _client: object, reader: Any) -> None:
        self.readers.append(reader)
        self.grew.set()


async def test_beyond_the_most_whole_answers_the_oldest_is_told_once() -> None:
    told = Told()
    answers = UnrelayedAnswers(told)
    for reader in range(MAX_WHOLE_ANSWERS):
        assert answers.begin(reader, "client", whole=True)
    assert answers.begin("stream", "client", whole=False)
    assert told.readers == []
    for reader in ("one more", "another"):
        assert answers.begin(reader, "client", whole=True)
    assert told.readers == [0, 1]


@pytest.mark.parametrize(("whole", "bound"), [(True, "WHOLE_TIMEOUT_S"), (False, "STREAM_TIMEOUT_S")])
async def test_who_reads_for_too_long_is_told(
    whole: bool, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unrelayed, bound, 0.01)
    told = Told()
    answers = UnrelayedAnswers(told)
    answers.begin("reader", "client", whole=whole)
    await asyncio.wait_for(told.grew.wait(), BOUND_S)
    assert told.readers == ["reader"]


async def test_a_connection_waits_for_all_that_is_read_on_of_its_client() -> None:
    answers = UnrelayedAnswers(Told())
    await answers.wait_for("nobody")
    for reader in ("a", "b"):
        answers.begin(reader, "client", whole=True)
    answers.begin("c", "another", whole=True)
    waiting = asyncio.create_task(answers.wait_for("client"))
    answers.end("a")
    await asyncio.sleep(0)
    assert not waiting.done()
    answers.end("b")
    await asyncio.wait_for(waiting, BOUND_S)


async def test_a_stop_tells_all_and_lets_no_other_begin() -> None:
    told = Told()
    answers = UnrelayedAnswers(told)
    for reader in ("a", "b"):
        answers.begin(reader, "client", whole=True)
    answers.close()
    assert told.readers == ["a", "b"]
    assert not answers.begin("c", "client", whole=True)
