"""A deadline does not count time in which the event loop was late, and still expires if it is always late."""

import asyncio
import time
from typing import Any

import pytest
from rig.simulation import World, simulate

from addon.runtime.deadline import LATE_S, STEPS, Deadline, MovableDeadline, within


class Turns:
    """The number of turns of the loop until ``expired``. Each turn blocks the loop for ``block_s``."""

    def __init__(self, block_s: float = 0) -> None:
        self.count = 0
        self.expired = asyncio.Event()
        self._block_s = block_s
        self._begin()

    def _begin(self) -> None:
        if not self.expired.is_set():
            self.count += 1
            time.sleep(self._block_s)
            asyncio.get_running_loop().call_soon(self._begin)


async def test_a_deadline_expires_once_its_time_is_over() -> None:
    loop, expired = asyncio.get_running_loop(), asyncio.Event()
    began_s = loop.time()
    deadline = Deadline(0.1, expired.set)
    await expired.wait()
    assert loop.time() - began_s >= 0.1
    assert deadline.has_given_full_time
    deadline.cancel()


async def test_a_deadline_that_was_cancelled_never_expires() -> None:
    expired = asyncio.Event()
    Deadline(0, expired.set).cancel()
    for _ in range(3 * STEPS):
        await asyncio.sleep(0)
    assert not expired.is_set()


async def test_time_in_which_the_loop_was_blocked_does_not_count() -> None:
    expired = asyncio.Event()
    deadline = Deadline(STEPS * LATE_S, expired.set)
    time.sleep(2 * STEPS * LATE_S)  # noqa: ASYNC251  (that is what is tested)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not expired.is_set()
    deadline.cancel()


async def test_a_loop_that_is_always_late_has_a_bounded_number_of_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("addon.runtime.deadline.LATE_S", 0.001)
    turns = Turns(block_s=0.005)
    deadline = Deadline(0.0001, turns.expired.set)
    await turns.expired.wait()
    assert not deadline.has_given_full_time
    assert 2 * STEPS <= turns.count <= 6 * STEPS


async def test_a_block_that_ends_in_time_goes_on() -> None:
    async with within(120):
        await asyncio.sleep(0)


async def test_a_block_that_takes_too_long_is_a_timeout_of_its_own() -> None:
    with pytest.raises(TimeoutError):
        async with within(0.01):
            await asyncio.Event().wait()


async def test_a_cancellation_within_a_block_is_no_timeout() -> None:
    async def wait() -> None:
        async with within(120):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_answer_that_came_while_the_loop_was_blocked_is_in_time() -> None:
    """As in a process that was stopped: the bytes are in the socket, and several reads are needed."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        async with within(STEPS * LATE_S):
            writer.write(b"0\n")
            await asyncio.sleep(0)
            time.sleep(2 * STEPS * LATE_S)  # noqa: ASYNC251  (that is what is tested)
            for number in range(5):
                assert await reader.readline() == b"%d\n" % number
                writer.write(b"%d\n" % (number + 1))
        writer.close()
        await writer.wait_closed()


class Expiries:
    """A movable deadline in simulated time, with the times at which it expired."""

    def __init__(self, world: World) -> None:
        self.deadline = MovableDeadline(lambda: self.at_s.append(world.loop.time()))
        self.at_s: list[float] = []


def test_a_moved_deadline_expires_once_at_its_last_time() -> None:
    async def main(world: World) -> list[float]:
        began_s = world.loop.time()
        moved = Expiries(world)
        for bound_s in (10, 5, 60, 20, 30):
            moved.deadline.set(bound_s)
        moved.deadline.extend(5)
        await asyncio.sleep(100)
        moved.deadline.set(1)
        moved.deadline.clear()
        await asyncio.sleep(100)
        moved.deadline.set(1)
        await asyncio.sleep(100)
        return [round(at_s - began_s) for at_s in moved.at_s]

    assert simulate(1, main).result == [35, 201]


def test_a_deadline_that_only_moves_later_starts_few_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(world: World) -> int:
        started: list[float] = []
        call_at = world.loop.call_at

        def count(when: float, *given: Any, **options: Any) -> asyncio.TimerHandle:
            started.append(when)
            return call_at(when, *given, **options)

        moved = Expiries(world)
        monkeypatch.setattr(world.loop, "call_at", count)
        for _ in range(1000):
            moved.deadline.set(60)
            moved.deadline.clear()
        moved.deadline.close()
        return len(started)

    assert simulate(1, main).result == 1
