"""New connections to providers on real sockets: time limits, names and addresses."""

import asyncio
import errno
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from rig.bounds import BOUND_S
from rig.provider import Peer, Provider, stay_silent
from rig.upstream import DeafPort
from rig.upstream_pool import acquire, exchange, fail_to_acquire, pool_of

from addon.upstream import connector
from addon.upstream.connector import SocketConnector
from addon.upstream.origin import Origin, Unreachable
from addon.upstream.pool import Pool, PoolLimits
from addon.upstream.provider_socket import ProviderSocket
from addon.upstream.round_trip import read_min_rtt_s


@pytest.mark.usefixtures("trusted")
async def test_a_handshake_that_is_not_answered_ends_in_time_and_leaks_no_socket() -> None:
    async with Provider(stay_silent) as provider, pool_of() as pool:
        error = await fail_to_acquire(pool, Origin("https", "127.0.0.1", provider.port), 0.1)
        assert not error.lagged
        await provider.wait_until_all_closed()
        assert provider.connections == 1


@pytest.mark.usefixtures("trusted")
async def test_a_handshake_that_is_cancelled_leaks_no_socket() -> None:
    arrived = asyncio.Event()

    async def answer(peer: Peer) -> None:
        arrived.set()
        await peer.wait_until_closed()

    async with Provider(answer) as provider, pool_of() as pool:
        task = asyncio.ensure_future(acquire(pool, Origin("https", "127.0.0.1", provider.port)))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await provider.wait_until_all_closed()


@pytest.mark.usefixtures("trusted")
async def test_closing_the_pool_ends_calls_that_connect_or_wait() -> None:
    arrived = asyncio.Event()

    async def answer(peer: Peer) -> None:
        arrived.set()
        await peer.wait_until_closed()

    async with Provider(answer) as provider, pool_of(PoolLimits(open_per_origin=1)) as pool:
        origin = Origin("https", "127.0.0.1", provider.port)
        calls = [asyncio.ensure_future(fail_to_acquire(pool, origin)) for _ in range(3)]
        await arrived.wait()
        await pool.close()
        assert all(error.lagged for error in await asyncio.gather(*calls))
        await provider.wait_until_all_closed()


async def test_a_port_that_takes_no_connection_is_unreachable_in_time() -> None:
    with DeafPort() as deaf:
        async with pool_of() as pool:
            host, port = deaf.base_url.removeprefix("http://").split("/")[0].split(":")
            error = await fail_to_acquire(pool, Origin("http", host, int(port)), 0.1)
            assert error.reason == "not connected in time"
            assert not error.lagged


async def test_a_refusing_port_is_unreachable() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        async with pool_of() as pool:
            error = await fail_to_acquire(pool, Origin("http", "127.0.0.1", sock.getsockname()[1]))
            assert error.reason == "connection refused"


async def test_a_late_process_is_not_the_fault_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("addon.runtime.deadline.LATE_S", -1)  # Every timer is late.
    async with Provider(stay_silent) as provider, pool_of(context=ssl.create_default_context()) as pool:
        error = await fail_to_acquire(pool, Origin("https", "127.0.0.1", provider.port), 0.01)
        assert error.lagged


# Names and addresses.


def resolving_to(*addresses: str) -> Callable[[str, int], Any]:
    async def resolve(host: str, port: int) -> Sequence[str]:
        assert host == "provider.example"
        return addresses

    return resolve


async def test_a_name_is_looked_up_off_the_loop_and_an_address_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def look_up(host: str, port: int, **options: Any) -> Any:
        asked.append((host, threading.current_thread() is threading.main_thread()))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    async with Provider() as provider, pool_of() as pool:
        for host in ("provider.example", "127.0.0.1"):
            connection = await acquire(pool, provider.origin(host=host))
            assert await exchange(connection) == b"ok"
    assert asked == [("provider.example", False)]


async def test_an_unknown_name_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*args: Any, **options: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    async with pool_of() as pool:
        for host in ("provider.example", "a" * 70 + ".example"):
            error = await fail_to_acquire(pool, Origin("http", host, 80))
            assert error.reason == "the host name can't be resolved"


async def test_a_look_up_that_waits_is_not_the_fault_of_the_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on, ended = threading.Event(), []

    def look_up(*args: Any, **options: Any) -> Any:
        ended.append(go_on.wait(BOUND_S))
        raise socket.gaierror(socket.EAI_NONAME, "no")

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    async with pool_of() as pool:
        origin = Origin("http", "provider.example", 80)
        alone = await fail_to_acquire(pool, origin, 0.05)
        assert not alone.lagged
        many = [fail_to_acquire(pool, origin, 0.05) for _ in range(connector.LOOKUPS)]
        assert all(error.lagged for error in await asyncio.gather(*many))
    assert not ended  # Nor does the end of the pool wait for them.
    go_on.set()


async def test_an_address_of_ipv6() -> None:
    try:
        async with Provider(host="::1") as provider, pool_of() as pool:
            assert await exchange(await acquire(pool, provider.origin())) == b"ok"
    except OSError as error:
        if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            raise
        pytest.skip("this machine has no IPv6")


async def test_the_next_address_is_tried_where_one_refuses() -> None:
    async with Provider() as provider, pool_of(resolve=resolving_to("127.0.0.2", "127.0.0.1")) as pool:
        connection = await acquire(pool, provider.origin(host="provider.example"))
        assert await exchange(connection) == b"ok"


def coroutines() -> set[str]:
    return {task.get_coro().__name__ for task in asyncio.all_tasks()}  # type: ignore[union-attr]


async def test_a_silent_address_delays_the_next_one_only_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "ATTEMPT_DELAY_S", 0.01)
    with DeafPort() as deaf:
        port = int(deaf.base_url.removeprefix("http://").split("/")[0].split(":")[1])
        resolve = resolving_to("127.0.0.1", "127.0.0.2")
        async with Provider(host="127.0.0.2", port=port), pool_of(resolve=resolve) as pool:
            connection = await acquire(pool, Origin("http", "provider.example", port))
            assert await exchange(connection) == b"ok"
            assert pool.stats().open == 1
            async with asyncio.timeout(BOUND_S):
                while "create_connection" in coroutines():  # noqa: ASYNC110  (it ends a few turns later)
                    await asyncio.sleep(0)


async def test_a_provider_is_unreachable_when_all_addresses_fail() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        async with pool_of(resolve=resolving_to("127.0.0.2", "127.0.0.3")) as pool:
            await fail_to_acquire(pool, Origin("http", "provider.example", sock.getsockname()[1]))
        async with pool_of(resolve=resolving_to()) as pool:
            await fail_to_acquire(pool, Origin("http", "provider.example", 80))


async def test_a_race_leaves_no_second_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "ATTEMPT_DELAY_S", 0)
    async with Provider(host="0.0.0.0") as provider:
        for _ in range(10):
            async with pool_of(resolve=resolving_to("127.0.0.1", "127.0.0.2", "127.0.0.3")) as pool:
                connection = await acquire(pool, Origin("http", "provider.example", provider.port))
                assert await exchange(connection) == b"ok"
                assert pool.stats().open == 1
        await provider.wait_until_all_closed()


class Closing(asyncio.Transport):
    """The transport of a connection that only notes how it is closed."""

    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


async def test_of_two_connections_that_come_together_one_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "ATTEMPT_DELAY_S", 0)
    made, are_both_tried = [Closing(), Closing()], asyncio.Event()
    untried = iter(made)

    async def connect(make: Any, host: str, port: int) -> Any:
        transport = next(untried)
        if transport is made[-1]:
            are_both_tried.set()
        await are_both_tried.wait()
        return transport, make()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", connect)
    # A protocol of asyncio has nothing to close: only its transport has.
    kept, _ = await connector.race(asyncio.Protocol, ["192.0.2.1", "192.0.2.2"], 443)
    await asyncio.sleep(0)
    assert [transport.is_aborted for transport in made] == [transport is not kept for transport in made]


def test_families_take_turns() -> None:
    found = [(6, "a"), (6, "b"), (6, "c"), (4, "d"), (4, "e")]
    assert connector.interleave(found) == ["a", "d", "b", "e", "c"]


async def test_sockets_are_watched_by_the_kernel_and_send_at_once() -> None:
    async with Provider() as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        transport = connection._socket._transport
        assert transport is not None
        sock = transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60


async def test_closing_ends_the_threads_of_look_ups() -> None:
    own = SocketConnector()
    with pytest.raises(Unreachable):
        await own.connect(Origin("http", "localhost", 9), None, BOUND_S, list[ProviderSocket]().pop)
    own.close()
    with pytest.raises(RuntimeError, match="after shutdown"):
        await own.connect(Origin("http", "localhost", 9), None, BOUND_S, list[ProviderSocket]().pop)


@pytest.mark.parametrize("host", ["a..example", "a" * 64 + ".example"])
async def test_a_name_that_is_none_is_unreachable(host: str) -> None:
    async with pool_of() as pool:
        error = await fail_to_acquire(pool, Origin("http", host, 80))
        assert error.reason == "the host name or address can't be used"


class ClosingConnector(SocketConnector):
    """Its connections end as soon as they are made."""

    async def connect(self, *args: Any) -> ProviderSocket:
        made = await super().connect(*args)
        made.abort()
        return made


async def test_a_connection_that_ends_at_once_is_unreachable() -> None:
    async with Provider() as provider:
        pool = Pool(ClosingConnector())
        error = await fail_to_acquire(pool, provider.origin())
        assert error.reason == "the connection ended as soon as it was made"
        assert not error.lagged
        await pool.close()


def test_a_simulated_connection_has_no_round_trip_of_the_kernel() -> None:
    assert read_min_rtt_s(asyncio.BaseTransport()) is None
