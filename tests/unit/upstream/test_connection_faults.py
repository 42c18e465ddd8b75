"""Providers that are hostile, answer at the wrong time, or break off: the next call is not affected."""

import asyncio
import ssl

import pytest
from rig.bounds import BOUND_S
from rig.provider import OK, Peer, Provider
from rig.upstream_pool import REQUEST, acquire, exchange, pool_of, wait_for_open_at_most

from addon.upstream.connection_error import UpstreamConnectionError
from addon.upstream.pool import PoolLimits

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
    "status 099": (b"HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n", None),
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
            assert broke.value.lost.is_answered
        else:
            assert await exchange(connection) == body
        connection.release()
        assert pool.stats().idle == 0
        following = await acquire(pool, provider.origin())
        assert not following.is_reused
        assert await exchange(following) == b"ok"
        following.release()


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "TLS"])
async def test_bytes_on_an_idle_connection_close_it(server_tls: ssl.SSLContext, is_tls: bool) -> None:
    late = asyncio.Event()

    async def answer(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await late.wait()
        await peer.send(OK)

    limits = PoolLimits(idle_s=2 * BOUND_S)  # The end of its idle time would close it, too.
    async with Provider(answer, server_tls if is_tls else None) as provider, pool_of(limits) as pool:
        connection = await acquire(pool, provider.origin())
        await exchange(connection)
        connection.release()
        late.set()
        await wait_for_open_at_most(0, pool)
        await provider.wait_until_all_closed()
        following = await acquire(pool, provider.origin())
        assert not following.is_reused
        assert await exchange(following) == b"ok"


async def test_an_answer_before_the_request_is_malformed() -> None:
    async def answer(peer: Peer) -> None:
        await peer.send(OK)

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        await provider.wait_until_all_closed()
        connection.send(REQUEST, b"{}")
        with pytest.raises(UpstreamConnectionError) as broke:
            await connection.head()
        assert not broke.value.lost.is_answered
        assert broke.value.is_malformed
        connection.close()


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


REASONS = {
    "reset": "the connection broke: ",
    "close": ("the provider closed the connection", "the connection ended within a body"),
}


@pytest.mark.parametrize("end", REASONS)
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
        if stage != "before the request":  # Else the write of the request may notice the end.
            assert str(broke.value).startswith(REASONS[end])
        # A reset may overtake earlier bytes.
        assert broke.value.lost.is_answered != is_unanswered or end == "reset"
        connection.release()
        await wait_for_open_at_most(0, pool)
        await provider.wait_until_all_closed()
