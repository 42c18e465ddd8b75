"""A provider on a real socket in the test's event loop. The test decides every byte that it sends."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Self

from addon.upstream.origin import Origin

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

type Handle = Callable[["Peer"], Awaitable[None]]


class Peer:
    """The provider's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        """Return the next request, head and body. Raise IncompleteReadError at the end."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return head + await self.reader.readexactly(length)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def wait_until_closed(self) -> None:
        """Wait until the other end closes."""
        with suppress(OSError):
            while await self.reader.read(65_536):
                pass

    def reset(self) -> None:
        """Close with a TCP reset."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


async def echo_ok(peer: Peer) -> None:
    """Answer each request with ``OK``."""
    while True:
        await peer.request()
        await peer.send(OK)


class Provider:
    """A provider that runs ``handle`` for each connection. ``connections`` counts all, ``open`` the open ones."""

    def __init__(
        self,
        handle: Handle = echo_ok,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.connections = 0
        self.open = 0
        self.errors: list[BaseException] = []
        self._handle = handle
        self._tls = tls
        self._host = host
        self.port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self._all_closed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._host, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not any(exc):
            assert self.errors == []

    def origin(self, tenant: str = "", host: str | None = None) -> Origin:
        return Origin("https" if self._tls else "http", host or self._host, self.port, tenant)

    async def wait_until_all_closed(self) -> None:
        """Wait until no connection is open."""
        while self.open:
            self._all_closed.clear()
            await self._all_closed.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        self.open += 1
        peer = Peer(reader, writer)
        try:
            await self._handle(peer)
            await peer.wait_until_closed()
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass
        except BaseException as error:  # noqa: BLE001
            self.errors.append(error)
        finally:
            writer.transport.abort()
            self.open -= 1
            self._all_closed.set()


async def stay_silent(peer: Peer) -> None:
    await peer.wait_until_closed()
