"""The simulated loop: virtual time, and runs by seed."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.simulation import Deadlock, Faults, TooManySteps, World, compare, simulate
from rig.simulation.echo import HOUR_S, PORT, echo, hear_all, joined
from rig.simulation.loop import BEGIN

from addon.runtime.deadline import Deadline, within

# Time.


def test_an_hour_passes_at_once_and_timers_fire_in_their_order():
    async def main(world: World) -> list[tuple[str, float]]:
        began_s, fired = world.loop.time(), list[tuple[str, float]]()

        async def note(name: str, delay_s: float) -> None:
            await asyncio.sleep(delay_s)
            fired.append((name, round(world.loop.time() - began_s, 6)))

        await asyncio.gather(note("last", HOUR_S), note("first", 0.5), note("second", 60))
        return fired

    ran = simulate(1, main)
    assert ran.result == [("first", 0.5), ("second", 60.0), ("last", HOUR_S)]
    assert ran.steps < 100
    assert ran.virtual_s == pytest.approx(HOUR_S)


def test_asyncio_timeouts_and_events_work_in_virtual_time():
    async def main(world: World) -> tuple[bool, float]:
        event = asyncio.Event()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(HOUR_S):
                await event.wait()
        world.loop.call_later(5, event.set)
        return await asyncio.wait_for(event.wait(), 10), world.loop.time()

    assert simulate(1, main).result == (True, 1000 + HOUR_S + 5)


def test_a_deadline_expires_on_time_and_is_fair_for_the_loop_is_never_late():
    async def main(world: World) -> tuple[float, bool]:
        expired = asyncio.Event()
        deadline = Deadline(30, expired.set)
        await expired.wait()
        with pytest.raises(TimeoutError):
            async with within(10):
                await asyncio.sleep(HOUR_S)
        return world.loop.time(), deadline.has_given_full_time

    assert simulate(1, main).result == (pytest.approx(1040), True)


def test_a_deadline_sees_a_process_that_was_stopped():
    async def main(world: World) -> bool:
        expired = asyncio.Event()
        deadline = Deadline(10, expired.set)
        world.loop.call_later(0.5, world.loop.advance, HOUR_S)
        await asyncio.sleep(2)
        deadline.cancel()
        return expired.is_set()

    assert simulate(1, main).result is False


def test_the_clock_shows_the_time_of_the_loop():
    async def main(world: World) -> timedelta:
        await asyncio.sleep(90)
        return world.clock.now() - BEGIN

    assert simulate(1, main).result == timedelta(seconds=90)


def test_a_run_that_waits_for_nothing_is_a_deadlock_that_names_its_tasks():
    async def wait_in_vain() -> None:
        await asyncio.Event().wait()

    async def main(world: World) -> None:
        await asyncio.create_task(wait_in_vain(), name="the-lost-one")

    with pytest.raises(Deadlock, match=r"(?s)1000\.000 s.*task the-lost-one: .*wait_in_vain line \d+"):
        simulate(1, main)


def test_a_run_that_spins_ends_with_an_error():
    async def main(world: World) -> None:
        while True:  # noqa: ASYNC110  (it spins)
            await asyncio.sleep(0)

    with pytest.raises(TooManySteps, match="after 50 turns"):
        simulate(1, main, max_steps=50)


def test_executors_run_in_the_loops_thread_and_pass_on_exceptions():
    async def main(world: World) -> str:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return await world.loop.run_in_executor(None, str.upper, "done")

    assert simulate(1, main).result == "DONE"


@pytest.mark.parametrize(("eager", "order"), [(False, ["after", "in task"]), (True, ["in task", "after"])])
def test_tasks_are_eager_only_on_request(eager: bool, order: list[str]):
    async def main(world: World) -> list[str]:
        order: list[str] = []

        async def work() -> None:
            order.append("in task")

        task = asyncio.create_task(work())
        order.append("after")
        await task
        return order

    assert simulate(1, main, eager_tasks=eager).result == order


def test_the_outcome_has_uncaught_exceptions_and_what_was_left():
    async def main(world: World) -> None:
        world.loop.call_soon(lambda: 1 // 0)
        task = asyncio.create_task(asyncio.sleep(HOUR_S))
        await joined(world)
        assert not task.done()

    with pytest.raises(AssertionError, match=r"left are .*task sleep"):
        simulate(1, main)
    ran = simulate(1, main, may_leave=True)
    assert ["ZeroDivisionError" in error for error in ran.errors] == [True]
    assert ran.left == ["client 40000>80", "server 40000>80", "task sleep"]


# Seeds.


FAULTY = Faults(
    latency_s=(0.001, 0.2),
    piece_bytes=(1, 40),
    buffer_bytes=(20, 200),
    after_bytes=(0, 200),
    refused=0.1,
    slow_connect=0.2,
    reset=0.2,
    stalled=0.2,
    half_closed=0.2,
)


async def ten_echoes(world: World) -> list[bytes | str]:
    """Run ten clients at once over a network with faults."""
    world.network.faults[PORT] = FAULTY
    server = await asyncio.start_server(hear_all, port=PORT)

    async def one(number: int) -> bytes | str:
        try:
            return await echo(world, bytes([97 + number]) * 100)
        except ConnectionError as error:
            return type(error).__name__

    answers = await asyncio.gather(*map(one, range(10)))
    server.close()
    await server.wait_closed()
    return answers


def test_the_same_seed_gives_the_same_run_and_others_do_not():
    runs = {seed: simulate(seed, ten_echoes) for seed in range(20)}
    for seed, ran in runs.items():
        assert compare(ran, simulate(seed, ten_echoes)) == "", f"seed {seed}"
        assert (ran.errors, ran.left) == ([], []), f"seed {seed}"
    assert len({ran.trace.digest for ran in runs.values()}) == len(runs)
    assert "event 0" in compare(runs[0], runs[1])
    answers = [answer for ran in runs.values() for answer in ran.result]
    assert {b"ConnectionResetError", "ConnectionRefusedError"} <= set(answers)
    whole = sum(len(answer) == 101 for answer in answers if isinstance(answer, bytes))
    assert len(answers) / 3 < whole < len(answers)


@given(st.integers(0, 2**32), st.binary(max_size=5000), st.integers(1, 200), st.integers(1, 300))
def test_bytes_arrive_in_order_however_they_are_cut(
    seed: int, data: bytes, piece_bytes: int, buffer_bytes: int
):
    async def main(world: World) -> bytes:
        world.network.faults[PORT] = Faults(
            latency_s=(0, 0.5), piece_bytes=(1, piece_bytes), buffer_bytes=(1, buffer_bytes)
        )
        client, server_side, server = await joined(world)
        client.transport.write(data)
        client.transport.close()
        await asyncio.gather(client.lost, server_side.lost)
        server.close()
        return bytes(server_side.data)

    ran = simulate(seed, main)
    assert (ran.result, ran.left, ran.errors) == (data, [], [])
