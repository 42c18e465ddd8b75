"""``Clients``: all client connections of a process."""

import asyncio
import resource
from contextlib import suppress

from mitmproxy import connection as mitmproxy_connection
from mitmproxy import ctx
from mitmproxy.connection import Client
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.server import ConnectionHandler

from addon.runtime.keepalive import keep_alive
from addon.runtime.read_buffer import new_read_buffer
from addon.wire.client_connection import ClientConnection, WireConfig
from addon.wire.connection import Connection
from addon.wire.mitmproxy_layers import GatewayLayer

CLOSE_TIMEOUT_S = 5.0

_FILES_PER_CLIENT = 3  # its socket, the socket of an upstream, and a spare one
_OTHER_FILES = 64


def max_clients() -> int:
    """Raise the limit of open files as far as the system allows. Return how many clients then fit in it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, 65_536)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(1, (min(wanted, 65_536) - _OTHER_FILES) // _FILES_PER_CLIENT)


class Clients:
    """The open client connections. The gateway's hooks call the methods that have the names of mitmproxy's hooks."""

    def __init__(self, limit: int, config: WireConfig) -> None:
        self.limit = limit
        self.config = config
        self.open: dict[str, ClientConnection] = {}
        self._is_retiring = False
        self._no_clients = asyncio.Event()
        self._call_tasks: set[asyncio.Task[None]] = set()
        self._buffer = new_read_buffer()

    def client_connected(self, client: Client) -> None:
        """Admit ``client`` and take over its socket, or set the error that makes mitmproxy close it."""
        handler = _handler_of(client)
        io = handler.transports.get(client) if handler else None
        transport = io.writer.transport if io and isinstance(io.writer, asyncio.StreamWriter) else None
        reader = io.reader if io else None
        if handler is None or not isinstance(transport, asyncio.Transport):
            client.error = "not a TCP connection of this server"
        elif not isinstance(reader, asyncio.StreamReader):
            client.error = "not a TCP connection"
        elif len(self.open) >= self.limit:
            client.error = "too many client connections"
        else:
            keep_alive(transport.get_extra_info("socket"))
            _disable_watchdog(handler)
            one = ClientConnection(handler, transport, reader, self.config, self._buffer)
            one.is_retiring = self._is_retiring
            self.open[client.id] = one
            self._no_clients.clear()
            _replace_reading(handler, one)

    def client_disconnected(self, client: Client) -> None:
        """Remove ``client``. Its calls go on until they are settled."""
        one = self.open.pop(client.id, None)
        if one and one.connection and one.connection.stream_count:
            task = asyncio.get_running_loop().create_task(one.connection.wait_for_tasks())
            self._call_tasks.add(task)
            task.add_done_callback(self._call_tasks.discard)
        if not self.open:
            self._no_clients.set()

    def make_layer(self, context: Context, kind: type[GatewayLayer] = GatewayLayer) -> GatewayLayer:
        """Return a new innermost layer for a client connection."""
        return kind(context, self._find)

    def connections(self) -> list[Connection]:
        """Return the connections whose protocol is known."""
        return [one.connection for one in self.open.values() if one.connection]

    def find(self, peer: tuple[str, int]) -> Client | None:
        """Return the client with the address ``peer``, or None. This looks at every connection."""
        return next((one.client for one in self.open.values() if one.client.peername[:2] == peer), None)

    def _find(self, client: Client) -> ClientConnection | None:
        return self.open.get(client.id)

    def announce_end(self) -> None:
        """Make the next answer on every connection its last one. Idle connections are included."""
        for one in list(self.open.values()):
            if one.connection:
                one.connection.announce_end()

    def retire(self) -> None:
        """Close every connection after a further answer that says so, also connections that are still to come."""
        self._is_retiring = True
        for one in list(self.open.values()):
            one.is_retiring = True
            if one.connection:
                one.connection.retire()

    def close_when_idle(self) -> None:
        """Close every connection as soon as its calls are answered. A connection without a call closes at once."""
        for one in list(self.open.values()):
            if one.connection:
                one.connection.close_when_idle()
            else:
                one.socket.close()

    async def wait_until_gone(self) -> None:
        """Wait until every connection is closed and its calls have ended. A slow client may take long."""
        while self.open or self._call_tasks:
            if self.open:
                await self._no_clients.wait()
            else:
                await asyncio.wait(self._call_tasks)

    async def close_all(self) -> None:
        """Abort every connection and wait until they are gone, at most ``CLOSE_TIMEOUT_S``."""
        for one in list(self.open.values()):
            one.socket.abort()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.wait_until_gone()


def _replace_reading(handler: ConnectionHandler, one: ClientConnection) -> None:
    """Let ``one`` read the client in place of ``handler``. Our handlers open no other connection."""

    async def handle_connection(connection: mitmproxy_connection.Connection) -> None:  # noqa: ARG001
        await one.run()

    handler.handle_connection = handle_connection  # type: ignore[method-assign]


def _disable_watchdog(handler: ConnectionHandler) -> None:
    """Keep mitmproxy's timeout from closing a connection. Each wait of the gateway has its own bound.

    ``disarm`` is not enough: a watchdog that already sleeps closes the connection when it wakes.
    """

    async def do_nothing() -> None:
        pass

    handler.timeout_watchdog.callback = do_nothing


def _handler_of(client: Client) -> ConnectionHandler | None:
    proxyserver = ctx.master.addons.get("proxyserver")
    return proxyserver.connections.get(client.id) if proxyserver else None
