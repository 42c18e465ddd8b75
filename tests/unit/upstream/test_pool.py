"""The pool of connections to providers, on real sockets."""

import asyncio

import pytest
from rig.configuration import ROOT
from rig.provider import OK, Peer, Provider
from rig.upstream_pool import REQUEST, acquire, cancel, exchange, pool_of, wait_for_open_at_most

from addon.upstream.connection_error import UpstreamConnectionError
from addon.upstream.origin import Unreachable
from addon.upstream.pool import PoolFull, PoolLimits


async def test_forty_calls_one_after_another_use_one_connection() -> None:
    async with Provider() as provider, pool_of() as pool:
        for number in range(40):
            connection = await acquire(pool, provider.origin(), f"workspace-{number}")
            assert connection.is_reused == (number > 0)
            assert await exchange(connection) == b"ok"
            connection.release()
        assert provider.connections == 1
        stats = pool.stats()
        assert (stats.open, stats.idle, stats.opened, stats.reused) == (1, 1, 1, 39)


async def test_two_tenants_never_share_a_connection() -> None:
    async with Provider() as provider, pool_of() as pool:
        for tenant in ("", "acme", "globex", "acme"):
            connection = await acquire(pool, provider.origin(tenant), "acme")
            await exchange(connection)
            connection.release()
        assert provider.connections == 3
        assert pool.stats().reused == 1


async def test_the_connection_that_was_used_last_is_used_first() -> None:
    async with Provider() as provider, pool_of() as pool:
        first, second = [await acquire(pool, provider.origin()) for _ in range(2)]
        for connection in (first, second):
            await exchange(connection)
            connection.release()
        again = await acquire(pool, provider.origin())
        assert again._socket is second._socket


async def test_a_fresh_connection_was_never_used() -> None:
    async with Provider() as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        await exchange(connection)
        connection.release()
        fresh = await acquire(pool, provider.origin(), fresh=True)
        assert not fresh.is_reused
        assert provider.connections == 2


async def test_releasing_twice_is_harmless() -> None:
    async with Provider() as provider, pool_of() as pool:
        first = await acquire(pool, provider.origin())
        await exchange(first)
        first.release()
        first.close()
        second = await acquire(pool, provider.origin())
        first.close()
        first.release()
        assert second.is_reused
        assert await exchange(second) == b"ok"
        second.release()
        assert pool.stats().idle == 1


async def test_a_closed_reused_connection_differs_from_a_failed_call() -> None:
    close = asyncio.Event()

    async def answer(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()
        close.set()
        peer.writer.close()

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        await exchange(connection)
        connection.release()
        connection = await acquire(pool, provider.origin())
        assert connection.is_reused
        with pytest.raises(UpstreamConnectionError) as broke:
            await exchange(connection)
        assert not broke.value.lost.is_answered
        connection.close()
        fresh = await acquire(pool, provider.origin(), fresh=True)
        assert await exchange(fresh) == b"ok"


async def test_a_request_on_a_connection_that_has_just_closed_is_known_to_be_lost_at_once() -> None:
    async with Provider() as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        assert await exchange(connection) == b"ok"
        connection.release()
        connection = await acquire(pool, provider.origin())
        connection._socket.abort()
        await wait_for_open_at_most(0, pool)
        connection.send(REQUEST, b"{}")
        assert await connection.next_input()
        with pytest.raises(UpstreamConnectionError):
            connection.take_head()
        connection.close()


async def silent(peer: Peer) -> None:
    await peer.wait_until_closed()


@pytest.mark.parametrize("bound", ["open_per_origin", "open_per_workspace"])
async def test_beyond_a_bound_calls_wait_in_their_order(bound: str) -> None:
    async with Provider() as provider, pool_of(PoolLimits(**{bound: 2})) as pool:
        held = [await acquire(pool, provider.origin()) for _ in range(2)]
        order: list[int] = []

        async def call(number: int) -> None:
            connection = await acquire(pool, provider.origin())
            order.append(number)
            await exchange(connection)
            connection.release()

        calls = [asyncio.create_task(call(number)) for number in range(6)]
        await asyncio.sleep(0)
        await cancel(calls.pop(1))
        assert order == []
        held[0].close()
        held[1].close()
        await asyncio.gather(*calls)
        assert order == [0, 2, 3, 4, 5]
        assert provider.connections <= 4


@pytest.mark.parametrize("bound", ["open_per_origin", "open_per_workspace"])
async def test_a_call_that_waits_too_long_raises(bound: str) -> None:
    async with Provider() as provider, pool_of(PoolLimits(**{bound: 1})) as pool:
        held = await acquire(pool, provider.origin())
        with pytest.raises(PoolFull):
            await pool.acquire(provider.origin(), "acme", 0.01)
        held.close()
        assert await exchange(await acquire(pool, provider.origin())) == b"ok"


async def test_a_workspace_holds_its_places_over_all_origins() -> None:
    async with Provider() as one, Provider() as other, pool_of(PoolLimits(open_per_workspace=1)) as pool:
        held = await acquire(pool, one.origin())
        with pytest.raises(PoolFull):
            await pool.acquire(other.origin(), "acme", 0.01)
        await acquire(pool, other.origin(), "globex")
        held.close()
        await acquire(pool, other.origin())


async def test_idle_connections_are_bounded() -> None:
    async with Provider() as one, Provider() as other, pool_of(PoolLimits(idle_per_origin=2, idle=3)) as pool:
        for provider in (one, other):
            held = [await acquire(pool, provider.origin()) for _ in range(4)]
            for connection in held:
                await exchange(connection)
                connection.release()
        assert pool.stats().idle == 3
        await wait_for_open_at_most(3, pool)
        # The connection that was idle for the longest time is closed.
        assert (await acquire(pool, one.origin())).is_reused
        assert not (await acquire(pool, one.origin())).is_reused


async def test_idle_connections_make_room_for_one_that_must_be_fresh() -> None:
    async with Provider() as provider, pool_of(PoolLimits(open_per_origin=1)) as pool:
        connection = await acquire(pool, provider.origin())
        await exchange(connection)
        connection.release()
        await acquire(pool, provider.origin(), fresh=True)
        await wait_for_open_at_most(1, pool)
        assert pool.stats().idle == 0


async def test_one_timer_closes_idle_connections_and_ends_with_them() -> None:
    async with Provider() as provider, pool_of(PoolLimits(idle_s=0.05)) as pool:
        held = [await acquire(pool, provider.origin()) for _ in range(3)]
        assert pool._idle._sweep_timer is None
        for connection in held:
            await exchange(connection)
            connection.release()
        assert pool._idle._sweep_timer is not None
        await provider.wait_until_all_closed()
        assert pool.stats().idle == 0
        assert pool._idle._sweep_timer is None


async def test_an_old_connection_is_not_used_again() -> None:
    async with Provider() as provider, pool_of(PoolLimits(age_s=0)) as pool:
        for _ in range(2):
            connection = await acquire(pool, provider.origin())
            await exchange(connection)
            connection.release()
        assert provider.connections == 2


async def test_a_connection_that_became_old_while_it_was_idle_is_not_used_again() -> None:
    async with Provider() as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        await exchange(connection)
        connection.release()
        connection._socket.opened_at_s -= PoolLimits().age_s
        assert pool.try_acquire(provider.origin(), "acme") is None
        assert not (await acquire(pool, provider.origin())).is_reused
        assert provider.connections == 2


async def test_unused_origins_and_workspaces_are_forgotten() -> None:
    async with Provider() as provider, pool_of(PoolLimits(idle_per_origin=0)) as pool:
        for number in range(20):
            connection = await acquire(pool, provider.origin(f"tenant-{number}"), f"tenant-{number}")
            await exchange(connection)
            connection.release()
        assert not pool._origins
        assert not pool._workspaces
        assert not pool._leases


async def test_an_origin_without_idle_connections_is_forgotten() -> None:
    async with Provider() as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        await exchange(connection)
        connection.release()
        assert list(pool._idle.by_origin) == [provider.origin()]
        connection = await acquire(pool, provider.origin())
        assert not pool._idle.by_origin
        connection._socket.abort()
        connection.close()
        kept = await acquire(pool, provider.origin())
        await exchange(kept)
        kept.release()
        kept._socket.abort()
        await wait_for_open_at_most(0, pool)
        assert not pool._idle.by_origin


async def test_closing_ends_all_connections_and_calls() -> None:
    async with Provider(silent) as provider, pool_of() as pool:
        connections = [await acquire(pool, provider.origin()) for _ in range(3)]
        for connection in connections:
            connection.send(REQUEST, b"{}")
        waiting = asyncio.ensure_future(connections[0].head())
        await asyncio.sleep(0)
        await pool.close()
        with pytest.raises(UpstreamConnectionError):
            await waiting
        await provider.wait_until_all_closed()
        with pytest.raises(Unreachable):
            await acquire(pool, provider.origin())


def test_the_page_for_operators_has_the_bounds() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    section = page.partition("\n## Connections to providers\n")[2].partition("\n## ")[0]
    limits = PoolLimits()
    for text in (
        f"{limits.idle_s:g} s",
        f"{limits.age_s / 60:g} minutes",
        f"{limits.idle_per_origin} wait idle",
        f"{limits.open_per_origin:,} are open",
        f"at most {limits.open_per_workspace}",
    ):
        assert text in " ".join(section.split())
