"""The simulated loop and its network: virtual time, runs by seed, and transports that behave like asyncio's."""

import asyncio
import re
import socket
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.simulation import Deadlock, Faults, TooManySteps, World, compare, simulate
from rig.simulation.loop import BEGIN

from addon.runtime.deadline import Deadline, within

HOUR_S = 3600.0
PORT = 80


async def hear_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Echo each line until the client ends."""
    try:
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def echo(world: World, text: bytes) -> bytes:
    """Send a line to a listening server. Return its answer."""
    reader, writer = await asyncio.open_connection("localhost", PORT)
    try:
        writer.write(text + b"\n")
        writer.write_eof()
        return await reader.read()
    except ConnectionError as error:
        return type(error).__name__.encode()
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


class Recorder(asyncio.Protocol):
    """A protocol that records the calls of its transport. ``stays_open``: it stays open after EOF."""

    def __init__(self, stays_open: bool = False) -> None:
        self.stays_open = stays_open
        self.calls: list[str] = []
        self.data = bytearray()
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.calls.append("made")

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.calls.append("eof")
        return self.stays_open

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append(f"lost {type(exc).__name__}")
        self.lost.set_result(exc)


async def joined(world: World, **options: bool) -> tuple[Recorder, Recorder, asyncio.AbstractServer]:
    """Return the client's end and the server's end of one connection."""
    made: list[Recorder] = []

    def accept() -> Recorder:
        made.append(Recorder(**options))
        return made[-1]

    server = await world.loop.create_server(accept, port=PORT)
    _, client = await world.loop.create_connection(lambda: Recorder(**options), "localhost", PORT)
    return client, made[0], server


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
        return world.loop.time(), deadline.is_fair

    assert simulate(1, main).result == (pytest.approx(1040), True)


def test_a_deadline_sees_a_process_that_was_stopped():
    async def main(world: World) -> bool:
        expired = asyncio.Event()
        Deadline(10, expired.set)
        world.loop.call_later(0.5, world.loop.advance, HOUR_S)
        await asyncio.sleep(2)
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

    ran = simulate(1, main)
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


# Transports.


def test_streams_carry_lines_both_ways():
    async def main(world: World) -> bytes:
        async with await asyncio.start_server(hear_all, port=PORT):
            return await echo(world, b"hello")

    ran = simulate(1, main)
    assert ran.result == b"hello\n"
    assert ran.left == []


def test_a_writer_is_paused_above_its_high_water_mark_until_the_reader_reads_again():
    async def main(world: World) -> tuple[list[str], int]:
        world.network.faults[PORT] = Faults(buffer_bytes=(1000, 1000))
        client, reader, _ = await joined(world)
        reader.transport.pause_reading()
        client.transport.set_write_buffer_limits(high=500, low=100)
        client.transport.write(bytes(1500))
        assert client.calls == ["made"]
        client.transport.write(bytes(1))
        waiting = client.transport.get_write_buffer_size()
        await asyncio.sleep(HOUR_S)
        assert client.calls == ["made", "pause"]
        reader.transport.resume_reading()
        await asyncio.sleep(1)
        assert len(reader.data) == 1501
        client.transport.abort()
        await reader.lost
        return client.calls, waiting

    assert simulate(1, main).result == (["made", "pause", "resume", "lost NoneType"], 501)


def test_a_close_flushes_and_an_abort_does_not():
    async def main(world: World) -> list[tuple[int, list[str]]]:
        world.network.faults[PORT] = Faults(buffer_bytes=(1000, 1000))
        outcomes = []
        for end in ("close", "abort"):
            client, reader, server = await joined(world)
            client.transport.write(bytes(5000))
            getattr(client.transport, end)()
            assert client.transport.is_closing()
            await asyncio.gather(client.lost, reader.lost)
            outcomes.append((len(reader.data), reader.calls))
            server.close()
        return outcomes

    assert simulate(1, main).result == [
        (5000, ["made", "eof", "lost NoneType"]),
        (1000, ["made", "eof", "lost NoneType"]),
    ]


def test_a_half_closed_connection_still_carries_the_answer():
    async def main(world: World) -> bytes:
        client, reader, _ = await joined(world, stays_open=True)
        client.transport.write(b"question")
        client.transport.write_eof()
        with pytest.raises(RuntimeError, match="after write_eof"):
            client.transport.write(b"more")
        await asyncio.sleep(1)
        assert reader.calls == ["made", "eof"]
        reader.transport.write(b"answer")
        reader.transport.close()
        await asyncio.sleep(1)
        client.transport.close()
        await client.lost
        return bytes(client.data)

    ran = simulate(1, main)
    assert (ran.result, ran.left) == (b"answer", [])


def test_a_client_that_closes_with_unread_bytes_resets_its_peer():
    async def main(world: World) -> list[str]:
        client, reader, _ = await joined(world)
        client.transport.pause_reading()
        reader.transport.write(b"unread")
        await asyncio.sleep(1)
        client.transport.close()
        assert isinstance(await reader.lost, ConnectionResetError)
        return reader.calls

    assert simulate(1, main).result == ["made", "lost ConnectionResetError"]


def test_writing_to_a_closed_peer_is_a_reset_that_a_writer_notices_at_its_next_write():
    async def main(world: World) -> list[str]:
        client, reader, _ = await joined(world)
        client.transport.pause_reading()
        reader.transport.close()
        await reader.lost
        client.transport.write(b"first")
        await asyncio.sleep(1)
        assert client.calls == ["made"]
        client.transport.write(b"second")
        await client.lost
        return client.calls

    assert simulate(1, main).result == ["made", "lost ConnectionResetError"]


@pytest.mark.parametrize("seed", range(4))
def test_a_reset_ends_both_sides(seed: int):
    async def main(world: World) -> tuple[list[str], list[str]]:
        world.network.faults[PORT] = Faults(reset=1, after_bytes=(5, 5), piece_bytes=(1, 3))
        client, reader, _ = await joined(world)
        for side in (client, reader):
            side.transport.write(b"0123456789")
        await asyncio.gather(client.lost, reader.lost)
        return client.calls, reader.calls

    ran = simulate(seed, main)
    assert ran.result == (["made", "lost ConnectionResetError"],) * 2
    assert (ran.errors, ran.left) == ([], [])


def test_a_stall_delays_later_bytes_and_loses_none():
    async def main(world: World) -> tuple[bytes, float]:
        world.network.faults[PORT] = Faults(stalled=1, after_bytes=(0, 0), stall_s=(50, 60))
        async with await asyncio.start_server(hear_all, port=PORT):
            return await echo(world, b"late"), world.loop.time()

    answer, now_s = simulate(1, main).result
    assert answer == b"late\n"
    assert 1050 < now_s < 1061


def test_a_connect_without_a_server_is_refused_and_names_are_looked_up():
    async def main(world: World) -> list[str]:
        world.network.names["api.example"] = ["2001:db8::1", "192.0.2.1"]
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("192.0.2.7", 9)
        with pytest.raises(socket.gaierror):
            await asyncio.open_connection("nowhere.example", 9)
        found = await world.loop.getaddrinfo("api.example", 443, type=socket.SOCK_STREAM)
        async with await asyncio.start_server(hear_all, port=443):
            _, writer = await asyncio.open_connection("api.example", 443)
            assert writer.get_extra_info("peername") == ("2001:db8::1", 443)
            assert writer.get_extra_info("socket") is None
            writer.close()
        return [address[0] for *_, address in found]

    assert simulate(1, main).result == ["2001:db8::1", "192.0.2.1"]


def test_a_cancelled_connect_leaves_no_connection():
    async def main(world: World) -> None:
        world.network.faults[PORT] = Faults(latency_s=(1, 1))
        async with await asyncio.start_server(hear_all, port=PORT):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.5):
                    await asyncio.open_connection("localhost", PORT)
            await asyncio.sleep(10)

    assert simulate(1, main).left == []


def test_an_exception_in_a_protocol_closes_its_connection_and_is_reported():
    class Broken(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("broken")

    async def main(world: World) -> list[str]:
        await world.loop.create_server(Broken, port=PORT)
        _, client = await world.loop.create_connection(Recorder, "localhost", PORT)
        client.transport.write(b"x")
        await client.lost
        return client.calls

    ran = simulate(1, main)
    assert re.match(r"Fatal error: protocol.data_received\(\) call failed.*ValueError", ran.errors[0])
    assert ran.result == ["made", "eof", "lost NoneType"]


def test_a_port_has_one_server_and_is_free_again_after_it():
    async def main(world: World) -> None:
        first = await world.loop.create_server(Recorder, port=PORT)
        with pytest.raises(OSError, match="in use"):
            await world.loop.create_server(Recorder, port=PORT)
        first.close()
        await world.loop.create_server(Recorder, port=PORT)

    assert simulate(1, main).errors == []
