"""What a connection knows of a request that was lost on it, in simulated time, and the round trip that decides."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

import pytest
from rig.provider import Provider
from rig.simulation import Faults, World, simulate
from rig.simulation.http_messages import body_pieces, read_head
from rig.upstream_pool import REQUEST, acquire, exchange, pool_of

from addon.settings.egress_proxy import EgressProxy
from addon.upstream.connection import UpstreamConnection
from addon.upstream.connection_error import UpstreamConnectionError
from addon.upstream.connector import SocketConnector
from addon.upstream.origin import Origin
from addon.upstream.pool import Pool
from policies.resend import LostRequest

PORT = 20_000
LATENCY_S = 0.1
"""One way. A request may be lost unread for 0.42 s after its first write."""

type Reader = asyncio.StreamReader
type Writer = asyncio.StreamWriter


def lose(
    lose_request: Callable[[World, UpstreamConnection], Awaitable[None]],
    idle_s: float = 10_000.0,
    *,
    is_read: bool = False,
) -> LostRequest:
    """Return what is known of a request on a connection whose provider closes it ``idle_s`` after an answer.

    With ``is_read``, it reads the request first.
    """

    async def read(reader: Reader) -> None:
        head = await read_head(reader)
        assert head
        _ = [piece async for piece in body_pieces(reader, head)]

    async def serve(reader: Reader, writer: Writer) -> None:
        await read(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        if is_read:
            await read(reader)
        await asyncio.sleep(idle_s)
        writer.close()

    async def main(world: World) -> LostRequest:
        world.network.faults[PORT] = Faults(latency_s=(LATENCY_S, LATENCY_S))
        server = await asyncio.start_server(serve, port=0)
        pool = Pool(SocketConnector())
        connection = await acquire(pool, Origin("http", "127.0.0.1", PORT))
        assert await exchange(connection) == b"ok"
        connection.release()
        again = await acquire(pool, Origin("http", "127.0.0.1", PORT))
        assert again.is_reused
        await lose_request(world, again)
        with pytest.raises(UpstreamConnectionError) as broke:
            await again.head()
        again.close()
        await pool.close()
        server.close()
        return broke.value.lost

    return simulate(1, main).result


def test_a_close_that_crosses_the_request_is_early() -> None:
    async def send_at_once(world: World, connection: UpstreamConnection) -> None:
        connection.send(REQUEST, b"{}")

    assert lose(send_at_once, idle_s=0.25).is_stale


def test_the_time_in_which_this_process_was_stopped_is_left_out() -> None:
    async def stop_after_sending(world: World, connection: UpstreamConnection) -> None:
        connection.send(REQUEST, b"{}")
        # The end of the connection is on its way. It arrives while nothing runs here.
        world.loop.call_soon(world.loop.advance, 30.0)

    lost = lose(stop_after_sending, idle_s=0.05)
    assert (lost.is_written, lost.is_early, lost.is_stale) == (True, True, True)


def test_a_close_after_the_window_is_late() -> None:
    async def send(world: World, connection: UpstreamConnection) -> None:
        connection.send(REQUEST, b"{}")

    lost = lose(send, idle_s=0.7)
    assert (lost.is_written, lost.is_early, lost.is_stale) == (True, False, False)


@pytest.mark.parametrize("is_read", [False, True], ids=["unread", "read"])
def test_a_large_request_is_stale_at_any_time_until_it_is_fully_written(is_read: bool) -> None:
    async def send_much(world: World, connection: UpstreamConnection) -> None:
        connection.send(REQUEST.replace(b": 2", b": %d" % (1 << 20)), bytes(1 << 20))

    lost = lose(send_much, idle_s=5.0, is_read=is_read)
    assert (lost.is_written, lost.is_early, lost.is_stale) == (is_read, False, not is_read)


def test_a_connection_that_this_process_closes_is_not_stale() -> None:
    async def close(world: World, connection: UpstreamConnection) -> None:
        connection.send(REQUEST, b"{}")
        connection.close()

    lost = lose(close, idle_s=0.25)
    assert (lost.by_provider, lost.is_early, lost.is_stale) == (False, True, False)


# The round trip.


def test_the_round_trip_through_a_proxy_is_the_one_to_the_provider() -> None:
    async def connect_slowly(reader: Reader, writer: Writer) -> None:
        await read_head(reader)
        await asyncio.sleep(0.2)  # The way from the proxy to the provider and back.
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await reader.read()
        writer.close()

    async def main(world: World) -> float | None:
        server = await asyncio.start_server(connect_slowly, port=0)
        pool = Pool(SocketConnector(), proxy=EgressProxy("127.0.0.1", PORT))
        connection = await acquire(pool, Origin("http", "provider.example", 80))
        found = connection._socket.round_trip_s
        connection.close()
        await pool.close()
        server.close()
        return found

    assert simulate(1, main).result == pytest.approx(0.2, abs=0.01)


async def test_the_round_trip_of_a_plain_connection_is_the_kernels() -> None:
    async with Provider() as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        found = connection._socket.round_trip_s
        assert found is not None
        assert found == round(found, 6)
        assert 0 < found < 1
        connection.close()


@pytest.mark.usefixtures("trusted")
async def test_the_round_trip_of_tls_is_that_of_its_handshake(server_tls: ssl.SSLContext) -> None:
    async with Provider(tls=server_tls) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        found = connection._socket.round_trip_s
        assert found is not None
        assert found != round(found, 6)  # The kernel counts in microseconds.
        connection.close()
