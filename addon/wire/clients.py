"""The client connections of a process: admitted, found, drained, closed."""

import asyncio
import resource
from contextlib import suppress

from mitmproxy import ctx
from mitmproxy.connection import Client, Connection
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.server import ConnectionHandler

from addon.runtime.keepalive import keep_alive
from addon.wire.layer import ClientConnection, GatewayLayer, Serving
from addon.wire.transport import READ_BYTES

CLOSE_TIMEOUT_S = 5.0

_FILES_PER_CLIENT = 3  # its socket, an upstream's, and one to spare
_FILES_OF_OUR_OWN = 64


def max_clients() -> int:
    """Return how many clients the limit of open files has room for, raised to what the system allows us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, 65_536)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(1, (min(wanted, 65_536) - _FILES_OF_OUR_OWN) // _FILES_PER_CLIENT)


class Clients:
    """The open client connections. Its methods with names of mitmproxy's hooks are called by the gateway's own."""

    def __init__(self, limit: int, serving: Serving) -> None:
        self.limit = limit
        self.serving = serving
        self.open: dict[str, ClientConnection] = {}
        self._all_gone = asyncio.Event()
        self._calls: set[asyncio.Task[None]] = set()
        self._buffer = memoryview(bytearray(READ_BYTES))

    def client_connected(self, client: Client) -> None:
        """Admit ``client`` and take over its socket, or mark it to be closed at once."""
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
            _disarm_watchdog(handler)
            one = ClientConnection(handler, transport, reader, self.serving, self._buffer)
            self.open[client.id] = one
            self._all_gone.clear()
            _replace_reading(handler, one)

    def client_disconnected(self, client: Client) -> None:
        """Forget ``client``, but for its calls: they settle."""
        one = self.open.pop(client.id, None)
        if one and one.connection and one.connection.streams:
            task = asyncio.get_running_loop().create_task(one.connection.tasks_ended())
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
        if not self.open:
            self._all_gone.set()

    def layer(self, context: Context, kind: type[GatewayLayer] = GatewayLayer) -> GatewayLayer:
        """Return the innermost layer of one client connection."""
        return kind(context, self._find)

    def find(self, peer: tuple[str, int]) -> Client | None:
        """Return the open connection from ``peer``, None where there is none. Looks at every connection."""
        return next((one.client for one in self.open.values() if one.client.peername[:2] == peer), None)

    def _find(self, client: Client) -> ClientConnection | None:
        return self.open.get(client.id)

    def announce_end(self) -> None:
        """Let the next answer on every connection be its last, those that are idle now included."""
        for one in list(self.open.values()):
            if one.connection:
                one.connection.announce_end()

    def close_when_idle(self) -> None:
        """Let every connection close once its calls are answered; those without a call close at once."""
        for one in list(self.open.values()):
            if one.connection:
                one.connection.close_when_idle()
            else:
                one.socket.close()

    async def wait_until_gone(self) -> None:
        """Wait until every connection is closed and its calls have ended. A slow client may take long."""
        while self.open or self._calls:
            if self.open:
                await self._all_gone.wait()
            else:
                await asyncio.wait(self._calls)

    async def close_all(self) -> None:
        """Cut off every connection and wait, a bounded time, until they are gone."""
        for one in list(self.open.values()):
            one.socket.abort()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.wait_until_gone()


def _replace_reading(handler: ConnectionHandler, one: ClientConnection) -> None:
    """Read the client by ``one``. No other connection is opened by a handler of ours."""

    async def handle_connection(connection: Connection) -> None:  # noqa: ARG001
        await one.run()

    handler.handle_connection = handle_connection  # type: ignore[method-assign]


def _disarm_watchdog(handler: ConnectionHandler) -> None:
    """Keep mitmproxy's timeout from closing a connection. Each wait here has a bound of its own.

    ``disarm`` is not enough: a watch that already sleeps closes the connection when it wakes.
    """

    async def do_nothing() -> None:
        pass

    handler.timeout_watchdog.callback = do_nothing


def _handler_of(client: Client) -> ConnectionHandler | None:
    proxyserver = ctx.master.addons.get("proxyserver")
    return proxyserver.connections.get(client.id) if proxyserver else None
