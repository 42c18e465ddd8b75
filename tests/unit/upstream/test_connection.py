"""One request to a provider and its answer, on real sockets."""

import asyncio

import pytest
from rig.provider import OK, Peer, Provider
from rig.upstream_pool import REQUEST, acquire, exchange, pool_of, read_body, wait_for_open_at_most

from addon.upstream.connection import UpstreamConnectionError


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
