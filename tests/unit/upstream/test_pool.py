"""The pool of connections to providers, on real sockets."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from rig.configuration import ROOT
from rig.provider import OK, Peer, Provider
from rig.upstream_pool import REQUEST, acquire, exchange, pool_of, read_body, wait_for_open_at_most

from addon.upstream.connection import UpstreamConnectionError
from addon.upstream.pool import PoolFull, PoolLimits, Unreachable


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


@pytest.mark.parametrize("give_up", ["unread", "half read", "unsent", "no answer"])
async def test_a_connection_with_an_unfinished_answer_is_not_kept(give_up: str) -> None:
    async def answer(peer: Peer) -> None:
        await peer.request()
        if give_up == "half read":
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok")
        elif give_up != "no answer":
            await peer.send(OK)

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        if give_up != "unsent":
            connection.send(REQUEST, b"{}")
        if give_up in ("unread", "half read"):
            await connection.head()
        if give_up == "half read":
            assert await connection.read() == b"ok"
        connection.release()
        assert pool.stats().idle == 0
        await provider.wait_until_all_closed()


async def test_an_answer_without_keep_alive_is_complete_and_its_connection_is_not_kept() -> None:
    answers = iter(
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
            b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        )
    )

    async def answer(peer: Peer) -> None:
        await peer.request()
        await peer.send(next(answers))

    async with Provider(answer) as provider, pool_of() as pool:
        for _ in range(2):
            connection = await acquire(pool, provider.origin())
            assert await exchange(connection) == b"ok"
            connection.release()
            assert pool.stats().idle == 0


async def test_a_body_until_the_end_of_the_connection() -> None:
    async def answer(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        peer.writer.close()

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        assert await exchange(connection) == b"all of it"
        connection.release()
        assert pool.stats().idle == 0


HOSTILE: dict[str, tuple[bytes, bytes | None]] = {
    # The provider's bytes for one request, and the body that the call reads. None: it must fail as malformed.
    "answers twice": (OK + OK, b"ok"),
    "junk after its answer": (OK + b"x", b"ok"),
    "a blank line after its answer": (OK + b"\r\n", b"ok"),
    "100, 200, junk": (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"junk", b"ok"),
    "100, 200, 200": (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + OK, b"ok"),
    "a second answer after a chunked one": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + OK,
        b"ok",
    ),
    "a body after 204": (b"HTTP/1.1 204 No Content\r\n\r\nok", b""),
    "17 interim answers": (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 17 + OK, None),
    "a change of the protocol": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n" + OK, None),
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n\r\n", None),
    "bare LF": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", None),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", None),
    "a length and chunks": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        None,
    ),
    "gzip as its framing": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok", None),
    "status 999": (b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", None),
    "a head that is too long": (b"HTTP/1.1 200 OK\r\nA: " + b"a" * 66_000 + b"\r\n\r\n", None),
    "a head without end": (b"HTTP/1.1 200 OK\r\nA: " + b"a" * 200_000, None),
    "junk as a chunk size": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n", None),
    "a chunk that is too long": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
        None,
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_provider_never_reaches_the_next_call(name: str) -> None:
    answer_bytes, body = HOSTILE[name]
    is_first = True

    async def answer(peer: Peer) -> None:
        nonlocal is_first
        sent, is_first = (answer_bytes if is_first else OK), False
        await peer.request()
        await peer.send(sent)

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        if body is None:
            with pytest.raises(UpstreamConnectionError) as broke:
                await exchange(connection)
            assert broke.value.is_malformed
            assert not broke.value.is_unanswered
        else:
            assert await exchange(connection) == body
        connection.release()
        assert pool.stats().idle == 0
        following = await acquire(pool, provider.origin())
        assert not following.is_reused
        assert await exchange(following) == b"ok"
        following.release()


async def test_sixteen_interim_answers_are_skipped() -> None:
    async def answer(peer: Peer) -> None:
        await peer.request()
        for _ in range(16):
            await peer.send(b"HTTP/1.1 102 Processing\r\nA: b\r\n\r\n")
        await peer.send(OK)

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        assert await exchange(connection) == b"ok"
        connection.release()
        assert pool.stats().idle == 1


async def test_bytes_on_an_idle_connection_close_it() -> None:
    late = asyncio.Event()

    async def answer(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await late.wait()
        await peer.send(OK)

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        await exchange(connection)
        connection.release()
        late.set()
        await provider.wait_until_all_closed()
        await wait_for_open_at_most(0, pool)
        following = await acquire(pool, provider.origin())
        assert not following.is_reused
        assert await exchange(following) == b"ok"


async def test_unread_bytes_in_the_socket_are_noticed_before_it_is_used_again() -> None:
    """The event loop has no turn between the arrival of the bytes and the next call."""
    peers: list[Peer] = []

    async def answer(peer: Peer) -> None:
        peers.append(peer)
        await peer.request()
        await peer.send(OK)

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        await exchange(connection)
        connection.release()
        peers[0].writer.get_extra_info("socket")._sock.send(OK)
        following = await acquire(pool, provider.origin())
        assert not following.is_reused


async def test_an_answer_before_the_request_is_malformed() -> None:
    async def answer(peer: Peer) -> None:
        await peer.send(OK)

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        await provider.wait_until_all_closed()
        connection.send(REQUEST, b"{}")
        with pytest.raises(UpstreamConnectionError) as broke:
            await connection.head()
        assert broke.value.is_unanswered
        assert broke.value.is_malformed
        connection.close()


async def test_an_answer_before_the_end_of_its_request_is_read_and_its_connection_not_kept() -> None:
    async def answer(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        await asyncio.Event().wait()

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        size = 64 << 20
        connection.send(REQUEST.replace(b": 2", b": %d" % size), bytes(size))
        await connection.sent()
        assert (await connection.head()).status == 413
        assert await read_body(connection) == b"no"
        connection.release()
        assert pool.stats().idle == 0


STAGES = {
    "before the request": (b"", True),
    "before the answer": (b"", True),
    "within an interim answer": (b"HTTP/1.1 100", False),
    "within the head": (b"HTTP/1.1 200 OK\r\nContent-", False),
    "before the body": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", False),
    "within the body": (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok", False),
    "within a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nok", False),
    "before the last chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", False),
}


@pytest.mark.parametrize("end", ["reset", "close"])
@pytest.mark.parametrize("stage", STAGES)
async def test_a_connection_that_breaks(stage: str, end: str) -> None:
    answer_bytes, is_unanswered = STAGES[stage]

    async def answer(peer: Peer) -> None:
        if stage != "before the request":
            await peer.request()
        await peer.send(answer_bytes)
        if answer_bytes:
            await asyncio.sleep(0)
        if end == "reset":
            peer.reset()
        else:
            peer.writer.close()

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        with pytest.raises(UpstreamConnectionError) as broke:
            await exchange(connection)
        assert not broke.value.is_malformed
        # A reset may overtake earlier bytes.
        assert broke.value.is_unanswered == is_unanswered or end == "reset"
        connection.release()
        await wait_for_open_at_most(0, pool)
        await provider.wait_until_all_closed()


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
        assert broke.value.is_unanswered
        connection.close()
        fresh = await acquire(pool, provider.origin(), fresh=True)
        assert await exchange(fresh) == b"ok"


async def test_an_idle_connection_that_the_provider_closed_is_not_used() -> None:
    async def answer(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        peer.writer.close()

    async with Provider(answer) as provider, pool_of() as pool:
        for _ in range(3):
            connection = await acquire(pool, provider.origin())
            assert not connection.is_reused
            assert await exchange(connection) == b"ok"
            connection.release()
            await provider.wait_until_all_closed()


# Cancelling.


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def silent(peer: Peer) -> None:
    await peer.wait_until_closed()


@pytest.mark.parametrize("wait", ["head", "read", "sent"])
async def test_a_cancelled_wait_leaks_no_socket(wait: str) -> None:
    async def answer(peer: Peer) -> None:
        if wait == "sent":
            await asyncio.Event().wait()
        await peer.request()
        if wait == "read":
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        body = bytes(64 << 20) if wait == "sent" else b"{}"
        connection.send(REQUEST.replace(b": 2", b": %d" % len(body)), body)
        if wait == "read":
            await connection.head()
        task = asyncio.ensure_future(getattr(connection, wait)())
        await asyncio.sleep(0)
        assert not task.done()
        await cancel(task)
        connection.close()
        await wait_for_open_at_most(0, pool)


async def test_a_cancelled_wait_can_be_repeated() -> None:
    go_on = asyncio.Event()

    async def answer(peer: Peer) -> None:
        await peer.request()
        await go_on.wait()
        await peer.send(OK)

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        connection.send(REQUEST, b"{}")
        task = asyncio.ensure_future(connection.head())
        await asyncio.sleep(0)
        await cancel(task)
        go_on.set()
        assert (await connection.head()).status == 200
        assert await read_body(connection) == b"ok"
        connection.release()
        assert pool.stats().idle == 1


async def test_a_cancelled_acquire_leaks_no_socket_and_no_place() -> None:
    limits = PoolLimits(open_per_origin=1)
    async with Provider() as provider, pool_of(limits) as pool:
        for turns in range(12):
            task = asyncio.ensure_future(acquire(pool, provider.origin()))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                (await task).close()  # In the last turns it is already done.
        connection = await acquire(pool, provider.origin())
        assert await exchange(connection) == b"ok"
        assert pool.stats().open == 1
        connection.close()
        await provider.wait_until_all_closed()


# Bounds.


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
        assert pool._sweep_timer is None
        for connection in held:
            await exchange(connection)
            connection.release()
        assert pool._sweep_timer is not None
        await provider.wait_until_all_closed()
        assert pool.stats().idle == 0
        assert pool._sweep_timer is None


async def test_an_old_connection_is_not_used_again() -> None:
    async with Provider() as provider, pool_of(PoolLimits(age_s=0)) as pool:
        for _ in range(2):
            connection = await acquire(pool, provider.origin())
            await exchange(connection)
            connection.release()
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


# Back-pressure and large messages.


async def test_reading_stops_while_the_body_is_unread() -> None:
    sent = 0
    size = 32 << 20

    async def answer(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while sent < size:
            await peer.send(bytes(65_536))
            sent += 65_536

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        connection.send(REQUEST, b"{}")
        await connection.head()
        before = -1
        while before != sent:
            before = sent
            for _ in range(50):
                await asyncio.sleep(0)
        assert connection._unread_bytes <= 2 * 65_536
        assert sent < size
        read = 0
        while piece := await connection.read():
            assert len(piece) <= 2 * 65_536
            read += len(piece)
        assert read == size
        connection.release()
        assert pool.stats().idle == 1


async def test_a_large_request_arrives_whole() -> None:
    async def answer(peer: Peer) -> None:
        request = await peer.request()
        text = b"%d" % len(request.partition(b"\r\n\r\n")[2])
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        body = bytes(20 << 20)
        connection.send(REQUEST.replace(b": 2", b": %d" % len(body)), body)
        await connection.sent()
        assert await read_body(connection) == b"%d" % len(body)
        connection.release()
        assert pool.stats().idle == 1


async def test_the_pieces_of_a_stream_come_as_they_are_sent() -> None:
    taken = asyncio.Event()

    async def answer(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (b"one", b"two", b"three"):
            await peer.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            await taken.wait()
            taken.clear()
        await peer.send(b"0\r\n\r\n")

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        connection.send(REQUEST, b"{}")
        pieces = []
        while piece := await connection.read():
            pieces.append(piece)
            taken.set()
        assert pieces == [b"one", b"two", b"three"]
        connection.release()
        assert pool.stats().idle == 1


async def test_an_answer_byte_by_byte() -> None:
    async def answer(peer: Peer) -> None:
        await peer.request()
        for byte in (
            b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
        ):
            await peer.send(bytes([byte]))
            await asyncio.sleep(0)

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        assert await exchange(connection) == b"ok"
        connection.release()
        assert pool.stats().idle == 1


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
