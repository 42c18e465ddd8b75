"""The HTTP/2 connections of the gateway on a real socket, with their sockets' bytes counted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from addon.text.errors import refusal_error
from addon.text.http_heads import Headers, Response
from addon.wire.connection import ServeStream, WireSettings
from addon.wire.http2 import Http2Connection
from addon.wire.transport import ClientSocket
from policies.refusal import Refusal
from rig.bounds import BOUND_S
from rig.conservation import assert_windows_open


def refuse(refusal: Refusal) -> Response:
    answer = refusal_error(refusal)
    return Response(answer.status, Headers([("content-type", "application/json")]), answer.body())


class CountingSocket(ClientSocket):
    """The gateway's own transport. It keeps the size of each write."""

    def write_raw(self, data: bytes) -> None:
        raise AssertionError("nothing is encrypted here")

    def write(self, data: bytes) -> None:
        self.__dict__.setdefault("writes", []).append(len(data))
        super().write(data)

    @property
    def writes(self) -> list[int]:
        """The size of each write."""
        return self.__dict__["writes"]


class AcceptedConnection(asyncio.Protocol):
    """The first protocol of an accepted client. A ``CountingSocket`` replaces it at once."""

    def __init__(self, server: "Server") -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        server, buffer = self._server, memoryview(bytearray(65_536))
        socket = CountingSocket(transport, self, buffer, server.settings.write_timeout_s)
        peer = transport.get_extra_info("peername")[:2]
        self._connection = Http2Connection(socket, server.serve_stream, server.settings, peer)
        server.connections.append(self._connection)
        server.transports.append(socket)
        socket.attach()

    def data_received(self, data: bytes) -> None:
        self._connection.data_received(data)

    def eof_received(self) -> bool:
        assert_windows_open(self._connection)
        self._connection.eof_received()
        return True

    def connection_lost(self, exc: Exception | None = None) -> None:
        self._connection.connection_lost()


@dataclass
class Server:
    """A server whose connections use HTTP/2."""

    serve_stream: ServeStream
    settings: WireSettings
    connections: list[Http2Connection] = field(default_factory=list)
    transports: list[CountingSocket] = field(default_factory=list)
    port: int = 0

    @property
    def connection(self) -> Http2Connection:
        return self.connections[-1]


@asynccontextmanager
async def serve_http2(
    serve_stream: ServeStream, *, eager: bool = True, **bounds: float
) -> AsyncIterator[Server]:
    """Serve on a free port. ``bounds`` are fields of ``WireSettings``. ``eager``: tasks start at once."""
    if eager:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    server = Server(serve_stream, WireSettings(refuse, **bounds))  # type: ignore[arg-type]
    listener = await asyncio.get_running_loop().create_server(
        lambda: AcceptedConnection(server), "127.0.0.1", 0
    )
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for connection in server.connections:
            assert_windows_open(connection)
        for transport in server.transports:
            transport.abort()
        async with asyncio.timeout(BOUND_S):
            for connection in server.connections:
                await connection.wait_for_tasks()
        await asyncio.sleep(0)
