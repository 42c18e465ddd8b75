"""One request to a provider and its answer, on real sockets."""

import asyncio

import pytest
from rig.bounds import BOUND_S
from rig.provider import OK, Peer, Provider
from rig.upstream_pool import REQUEST, acquire, exchange, pool_of, read_body


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


async def test_an_answer_before_the_end_of_its_request_is_read_and_its_connection_not_kept() -> None:
    async def answer(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        await asyncio.Event().wait()

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        size = 64 << 20
        connection.send(REQUEST.replace(b": 2", b": %d" % size), bytes(size))
        assert (await connection.head()).status == 413
        assert await read_body(connection) == b"no"
        connection.release()
        assert pool.stats().idle == 0


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


async def test_a_fault_of_who_gets_a_piece_ends_the_wait_for_it() -> None:
    may_send = asyncio.Event()

    async def answer(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        await may_send.wait()
        await peer.send(b"ok")

    def refuse(piece: bytes) -> bool:
        raise ValueError(piece)

    async with Provider(answer) as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        connection.send(REQUEST, b"{}")
        await connection.head()
        arrival = connection.next_input(refuse)
        may_send.set()
        with pytest.raises(ValueError, match="ok"):
            await asyncio.wait_for(arrival, BOUND_S)
        connection.close()


async def test_only_one_may_wait_for_the_input_of_a_connection() -> None:
    async with Provider() as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        connection.next_input()
        with pytest.raises(RuntimeError, match="another task waits"):
            connection.next_input()
        connection.close()


async def test_a_connection_takes_one_request_each_time_it_is_acquired() -> None:
    async with Provider() as provider, pool_of() as pool:
        connection = await acquire(pool, provider.origin())
        assert await exchange(connection) == b"ok"
        with pytest.raises(RuntimeError, match="one request"):
            connection.send(REQUEST, b"{}")
        connection.release()
        unsent = await acquire(pool, provider.origin())
        unsent.close()
        with pytest.raises(RuntimeError, match="one request"):
            unsent.send(REQUEST, b"{}")
