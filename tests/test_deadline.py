"""A deadline is believed only while the event loop was on time, and expires all the same where it never is."""

import asyncio
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import repeat

import pytest
from mitmproxy.connection import Server

from addon.connecting import LOOKUPS, ConnectTimers
from addon.deadline import LATE_S, STEPS, Deadline, within


class Turns:
    """Counts the turns of the loop until ``expired``; each of them blocks it for ``block_s``."""

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
    assert deadline.is_fair
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


async def test_a_loop_that_is_always_late_has_so_many_turns_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("addon.deadline.LATE_S", 0.001)
    turns = Turns(block_s=0.005)
    deadline = Deadline(0.0001, turns.expired.set)
    await turns.expired.wait()
    assert not deadline.is_fair
    assert 2 * STEPS <= turns.count <= 6 * STEPS


async def test_a_block_that_ends_in_time_goes_on() -> None:
    async with within(120):
        await asyncio.sleep(0)


async def test_a_block_that_takes_too_long_is_a_timeout_of_its_own() -> None:
    with pytest.raises(TimeoutError):
        async with within(0.01):
            await asyncio.Event().wait()


async def test_what_is_cancelled_within_a_block_is_cancelled_and_no_timeout() -> None:
    async def wait() -> None:
        async with within(120):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_answer_that_came_while_the_loop_was_blocked_is_in_time() -> None:
    """As of a process that was stopped: its bytes lie in the socket, and several are needed one after another."""

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


async def test_a_connection_that_this_process_was_too_late_for_is_told_from_one_that_its_peer_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def connect(timers: ConnectTimers, server: Server, blocks: Iterable[float]) -> bool:
        timers.begin(server, 0.001)
        with suppress(asyncio.CancelledError):
            for block_s in blocks:
                time.sleep(block_s)  # noqa: ASYNC251  (that is what is tested)
                await asyncio.sleep(0)
        timers.end(server)
        return server in timers.lagged

    timers, servers = ConnectTimers(), [Server(address=("127.0.0.1", 1)) for _ in range(2)]
    monkeypatch.setattr("addon.deadline.LATE_S", 60)
    assert not await asyncio.create_task(connect(timers, servers[0], repeat(0)))
    monkeypatch.setattr("addon.deadline.LATE_S", 0.001)
    assert await asyncio.create_task(connect(timers, servers[1], repeat(0.005)))


async def test_a_connection_whose_name_waits_to_be_looked_up_says_nothing_of_its_peer() -> None:
    timers, server = ConnectTimers(), Server(address=("localhost", 1))
    go_on = threading.Event()

    async def connect() -> None:
        timers.begin(server, 0.05)
        loop = asyncio.get_running_loop()
        others = [loop.run_in_executor(None, go_on.wait) for _ in range(LOOKUPS)]
        with pytest.raises(asyncio.CancelledError):
            await loop.getaddrinfo("localhost", 1)
        timers.end(server)
        go_on.set()
        await asyncio.gather(*others)

    await asyncio.create_task(connect())
    assert server in timers.lagged
