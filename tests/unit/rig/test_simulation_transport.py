"""The simulated network: its transports behave like those of asyncio."""

import asyncio
import re
import socket

import pytest
from rig.simulation import Faults, World, simulate
from rig.simulation.echo import HOUR_S, PORT, Recorder, echo, hear_all, joined


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
            assert writer.get_extra_info("socket").fileno() == -1
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
