"""The gateway's client connections on the simulated network, without mitmproxy."""

import asyncio
import json
from typing import Any

from addon.runtime.read_buffer import new_read_buffer
from addon.text.http_heads import Headers, Response
from addon.wire.connection import Connection, ServeStream, WireSettings
from addon.wire.http1 import Http1Connection
from addon.wire.transport import ClientSocket
from policies.refusal import Refusal
from rig.conservation import assert_windows_open
from rig.simulation.run import World


def refuse(refusal: Refusal) -> Response:
    """Return the answer to a refusal. Its body is an error with the code."""
    body = json.dumps({"error": {"code": refusal.code}}).encode()
    return Response(refusal.status, Headers([("content-type", "application/json")]), body)


class WireServer:
    """A server that runs ``serve_stream`` for each request. All its connections are of one ``kind``."""

    def __init__(
        self,
        world: World,
        serve_stream: ServeStream,
        settings: WireSettings,
        kind: type[Connection] = Http1Connection,
    ) -> None:
        self.kind = kind
        self._world, self.serve_stream, self.settings = world, serve_stream, settings
        self.buffer = new_read_buffer()
        self.connections: dict[Connection, ClientSocket] = {}
        self.port = 0

    async def start(self) -> None:
        """Listen."""
        self._server: Any = await self._world.loop.create_server(lambda: _Acceptor(self), port=0)
        self.port = self._server.port

    async def stop(self) -> None:
        """Wait for the calls, also of clients that left, and then for every connection."""
        self.close_when_idle()
        await self.wait_until_gone()

    def close_when_idle(self) -> None:
        """Accept no more connections. Close each one when its call is answered."""
        self._server.close()
        for connection in list(self.connections):
            connection.close_when_idle()

    def cut_off(self) -> None:
        """Abort every connection."""
        for socket in list(self.connections.values()):
            socket.abort()

    async def wait_until_gone(self) -> None:
        """Wait until every connection is closed and its calls have ended."""
        for connection in list(self.connections):
            await connection.wait_for_tasks()
        await self._server.wait_closed()


class _Acceptor(asyncio.Protocol):
    """The first protocol of a connection. It makes a ``ClientSocket``, which replaces it and reports to it."""

    def __init__(self, server: WireServer) -> None:
        self._server = server

    def connection_made(self, transport: Any) -> None:
        settings = self._server.settings
        socket = ClientSocket(transport, self, self._server.buffer, settings.write_timeout_s)
        peer = transport.get_extra_info("peername")
        self._connection = self._server.kind(socket, self._server.serve_stream, settings, peer)
        self._server.connections[self._connection] = socket
        socket.attach()

    def data_received(self, data: bytes) -> None:
        self._connection.data_received(data)

    def eof_received(self) -> None:
        assert_windows_open(self._connection)
        self._connection.eof_received()

    def connection_lost(self, exc: Exception | None = None) -> None:
        self._connection.connection_lost()
        if not self._connection.stream_count:
            del self._server.connections[self._connection]
