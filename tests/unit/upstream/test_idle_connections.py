"""How long connections are idle, in simulated time: as the provider asks, and less where it closes first."""

import asyncio
from collections.abc import Sequence

import pytest
from rig.simulation import Faults, World, simulate
from rig.simulation.http_messages import body_pieces, read_head
from rig.upstream_pool import REQUEST, acquire, exchange

from addon.runtime.read_buffer import new_read_buffer
from addon.upstream import idle_connections
from addon.upstream.connection_error import UpstreamConnectionError
from addon.upstream.connector import SocketConnector
from addon.upstream.idle_connections import IdleConnections
from addon.upstream.origin import Origin
from addon.upstream.pool import Pool, PoolLimits
from addon.upstream.provider_socket import ProviderSocket

FOREVER_S = 10_000.0
ORIGIN = Origin("http", "127.0.0.1", 20_000)


class Provider:
    """A server that closes what is idle for ``idle_s``. Its answers have the ``fields``."""

    def __init__(self, idle_s: float = FOREVER_S, fields: str = "") -> None:
        self.idle_s, self.fields, self.connections = idle_s, fields, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                async with asyncio.timeout(self.idle_s):
                    head = await read_head(reader)
                if head is None:
                    break
                _ = [piece async for piece in body_pieces(reader, head)]
                writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n{self.fields}\r\nok".encode())
        except TimeoutError:
            pass
        finally:
            writer.close()


def count_connections(provider: Provider, pauses_s: Sequence[float], limits: PoolLimits | None = None) -> int:
    """Return how many connections calls with these pauses between them need."""

    async def main(world: World) -> int:
        server = await asyncio.start_server(provider.serve, port=0)
        pool, origin = Pool(SocketConnector(), limits or PoolLimits()), Origin("http", "127.0.0.1", 20_000)
        for pause_s in (*pauses_s, 0):
            connection = await acquire(pool, origin)
            assert await exchange(connection) == b"ok"
            connection.release()
            await asyncio.sleep(pause_s)
        await pool.close()
        server.close()
        await server.wait_closed()
        return provider.connections

    outcome = simulate(1, main)
    assert (outcome.errors, outcome.left) == ([], [])
    return outcome.result


@pytest.mark.parametrize(
    ("fields", "pause_s", "connections"),
    [
        ("", 49, 1),
        ("", 51, 2),
        ("keep-alive: timeout=5\r\n", 3.9, 1),
        ("keep-alive: timeout=5\r\n", 4.1, 2),
        ("Keep-Alive: max=100, Timeout=5\r\n", 4.1, 2),
        ("keep-alive: timeout=600\r\n", 51, 2),
        ("keep-alive: timeout=1\r\n", 0, 2),
        ("keep-alive: timeout=0\r\n", 0, 2),
        ("keep-alive: timeout=soon\r\n", 49, 1),
        ("keep-alive: notimeout=5\r\n", 49, 1),
    ],
)
def test_a_connection_is_closed_a_second_before_its_provider_would(
    fields: str, pause_s: float, connections: int
) -> None:
    assert count_connections(Provider(fields=fields), [pause_s]) == connections


def test_a_provider_that_closes_first_is_left_half_the_time() -> None:
    # 50 s, 25, 12.5 and 6.25: each was too long for a provider that closes after 5 s. 3.1 s is not.
    found = [count_connections(Provider(idle_s=5), [6] * times + [3, 4]) for times in range(6)]
    # With fewer than four of its closes, a pause of 4 s still finds the connection of the call before.
    assert found == [1, 2, 3, 4, 6, 7]


@pytest.mark.parametrize(
    ("pause_s", "bound_s"), [(1, 50), (4.95, 25)], ids=["by this side", "by its provider, as a request came"]
)
def test_only_a_provider_that_closes_first_shortens_the_time(pause_s: float, bound_s: float) -> None:
    async def main(world: World) -> float:
        world.network.faults[ORIGIN.port] = Faults(latency_s=(0.1, 0.1))
        server = await asyncio.start_server(Provider(idle_s=5).serve, port=0)
        pool = Pool(SocketConnector(), PoolLimits())
        connection = await acquire(pool, ORIGIN)
        await exchange(connection)
        connection.release()
        await asyncio.sleep(pause_s)
        connection = await acquire(pool, ORIGIN)
        connection.send(REQUEST, b"{}")
        if bound_s < 50:
            with pytest.raises(UpstreamConnectionError):
                await connection.head()
        connection.close()
        connection = await acquire(pool, ORIGIN)
        socket = connection._socket
        await exchange(connection)
        connection.release()
        await pool.close()
        server.close()
        await server.wait_closed()
        return socket.idle_until_s - socket.idle_since_s

    assert simulate(1, main).result == pytest.approx(bound_s)


@pytest.mark.parametrize(("pause_s", "connections"), [(3500, 8), (3700, 7)], ids=["kept", "forgotten"])
def test_the_shorter_time_is_forgotten_after_an_hour(pause_s: float, connections: int) -> None:
    provider = Provider(idle_s=5)
    assert count_connections(provider, [6] * 4 + [4, pause_s, 4]) == connections


def test_an_origin_with_a_short_time_closes_no_other_early() -> None:
    async def main(world: World) -> tuple[int, int]:
        short, long = Provider(fields="keep-alive: timeout=3\r\n"), Provider()
        servers = [await asyncio.start_server(one.serve, port=0) for one in (short, long)]
        pool = Pool(SocketConnector(), PoolLimits())
        for port in (20_001, 20_000):
            connection = await acquire(pool, Origin("http", "127.0.0.1", port))
            await exchange(connection)
            connection.release()
        await asyncio.sleep(2.5)
        after_three_s = pool.stats().idle
        await asyncio.sleep(47)
        almost_at_the_end = pool.stats().idle
        await asyncio.sleep(1)
        assert pool.stats().idle == 0
        await pool.close()
        for server in servers:
            server.close()
            await server.wait_closed()
        return after_three_s, almost_at_the_end

    assert simulate(1, main).result == (1, 1)


def new_socket() -> ProviderSocket:
    return ProviderSocket(lambda _: None, new_read_buffer(), ORIGIN)


@pytest.mark.parametrize("how", ["taken", "closed by its provider"])
def test_a_connection_is_closed_in_time_after_others_have_left(how: str) -> None:
    async def main(world: World) -> bool:
        idle, gone, socket = IdleConnections(10, 8.0, FOREVER_S), new_socket(), new_socket()
        idle.add(gone)
        if how == "taken":
            assert idle.take(ORIGIN) is gone
        else:
            idle.forget_closed(gone)
        await asyncio.sleep(9)
        idle.add(socket)
        await asyncio.sleep(8.5)
        return socket.is_closed

    assert simulate(1, main).result


@pytest.mark.parametrize("how", ["taken", "closed by its provider"])
def test_a_connection_is_closed_in_time_while_others_leave(how: str) -> None:
    async def main(world: World) -> bool:
        idle, kept, gone = IdleConnections(10, 8.0, FOREVER_S), new_socket(), new_socket()
        idle.add(kept)
        idle.add(gone)
        if how == "taken":
            assert idle.take(ORIGIN) is gone
        else:
            idle.forget_closed(gone)
        await asyncio.sleep(8.5)
        return kept.is_closed

    assert simulate(1, main).result


def test_a_time_that_can_get_no_shorter_is_forgotten_an_hour_after_it_was_found() -> None:
    async def main(world: World) -> list[float]:
        idle, found = IdleConnections(10, 4.0, FOREVER_S), []
        for pause_s in (0, 3000, 1000):
            await asyncio.sleep(pause_s)
            socket = new_socket()
            idle.add(socket)
            found.append(socket.idle_until_s - socket.idle_since_s)
            idle.forget_closed(socket)
        idle.close_all()
        return found

    # The second one is closed first, too, but 2 s is the least.
    assert simulate(1, main).result == pytest.approx([4, 2, 4])


def test_a_connection_that_is_too_old_when_it_is_taken_is_closed() -> None:
    async def main(world: World) -> list[tuple[bool, bool]]:
        found = []
        for age_s in (4.0, 5.0, 6.0):
            idle, socket = IdleConnections(10, 8.0, age_s), new_socket()
            socket.opened_at_s = asyncio.get_running_loop().time()
            idle.add(socket)
            await asyncio.sleep(5)
            found.append((idle.take(ORIGIN) is socket, socket.is_closed))
            idle.close_all()
        return found

    assert simulate(1, main).result == [(False, True), (False, True), (True, False)]


def test_only_so_many_shorter_times_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_connections, "MAX_BOUNDS", 2)

    async def main(world: World) -> list[float]:
        idle, found = IdleConnections(10, 8.0, FOREVER_S), []
        for port in (1, 2, 3, 3, 2, 1):
            socket = ProviderSocket(lambda _: None, new_read_buffer(), Origin("http", "127.0.0.1", port))
            idle.add(socket)
            found.append(socket.idle_until_s - socket.idle_since_s)
            if len(found) <= 3:
                idle.forget_closed(socket)
        idle.close_all()
        return found

    assert simulate(1, main).result == pytest.approx([8, 8, 8, 4, 4, 8])
