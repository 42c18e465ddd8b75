"""The thread of operators' own policies: work that hangs, fails, or ends after all."""

import asyncio
from threading import Event

import pytest
from rig.bounds import BOUND_S

from addon.console.operator_thread import OperatorThread, StuckError


async def test_work_returns_its_result_or_raises_one_after_the_other() -> None:
    thread = OperatorThread()
    assert await asyncio.gather(*(thread.run(lambda number=number: number) for number in range(3))) == [
        0,
        1,
        2,
    ]  # type: ignore[misc]
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0)
    assert await thread.run(lambda: "after it") == "after it"


async def test_work_that_hangs_is_left_alone_and_refuses_others_until_it_ends() -> None:
    thread, end = OperatorThread(limit_s=0.02), Event()
    with pytest.raises(StuckError):
        await thread.run(lambda: end.wait(BOUND_S))
    begun = Event()
    with pytest.raises(StuckError):
        await thread.run(begun.set)
    assert not begun.is_set()
    end.set()
    async with asyncio.timeout(BOUND_S):
        while not begun.is_set():
            try:
                await thread.run(begun.set)
            except StuckError:
                await asyncio.sleep(0.001)


async def test_work_whose_client_leaves_ends_before_the_next_begins() -> None:
    thread, end, began = OperatorThread(), Event(), Event()
    ended: list[str] = []

    def first() -> None:
        began.set()
        end.wait(BOUND_S)
        ended.append("first")

    left = asyncio.create_task(thread.run(first))
    assert await asyncio.to_thread(began.wait, BOUND_S)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    second = asyncio.create_task(thread.run(lambda: ended.append("second")))
    end.set()
    await second
    assert ended == ["first", "second"]
