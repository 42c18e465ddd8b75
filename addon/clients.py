"""Client connections, bounded in number and in the time they may take to say something."""

import asyncio
import collections
import resource
import socket
from contextlib import suppress
from functools import partial

from mitmproxy import ctx
from mitmproxy.connection import Client, Connection
from mitmproxy.proxy.layer import Layer
from mitmproxy.proxy.server import ConnectionHandler
from mitmproxy.utils import asyncio_utils

from addon.deadline import Deadline
from addon.hop_wire import HEAD_TIMEOUT_S, StopReading

MAX_UPSTREAM_CONNECTIONS_PER_CLIENT = 256
"""To one address, for one client connection: mitmproxy's five would strangle an HTTP/2 client."""

CLOSE_TIMEOUT_S = 5.0

KEEPALIVE_S = 60
"""How long a connection is silent before its peer's kernel is asked whether it is there."""

_KEEPALIVE = {"TCP_KEEPIDLE": KEEPALIVE_S, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3}

_FILES_PER_CLIENT = 3  # its socket, an upstream's, and one to spare
_FILES_OF_OUR_OWN = 64


def max_clients() -> int:
    """How many client connections the open-file limit has room for, raised to what the system allows us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, 65_536)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(1, (min(wanted, 65_536) - _FILES_OF_OUR_OWN) // _FILES_PER_CLIENT)


class Clients:
    """The open client connections."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.silent: dict[str, Deadline] = {}
        self.open: dict[str, Client] = {}
        self.all_gone = asyncio.Event()

    def connected(self, client: Client) -> None:
        """Admit ``client``, or mark it to be closed at once."""
        if len(self.open) >= self.limit:
            client.error = "too many client connections"
            return
        self.open[client.id] = client
        self.all_gone.clear()
        handler = _handler_of(client)
        if handler:
            _harden(handler)
        self.silent[client.id] = Deadline(HEAD_TIMEOUT_S, partial(close_client, client))

    def spoke(self, client: Client) -> None:
        """The client's first bytes are in, and its TLS is done: from here on ``wire.ClientSide`` watches it."""
        timer = self.silent.pop(client.id, None)
        if timer:
            timer.cancel()

    def disconnected(self, client: Client) -> None:
        """Forget ``client``."""
        self.spoke(client)
        self.open.pop(client.id, None)
        if not self.open:
            self.all_gone.set()

    async def delivered(self) -> None:
        """Wait until all that was written to the clients is on its way. A slow client may take long."""
        for client in list(self.open.values()):
            writer = _writer_of(client)
            if writer:
                writer.transport.set_write_buffer_limits(0)
                with suppress(OSError):
                    await writer.drain()

    async def close_all(self) -> None:
        """Close every connection and wait, a bounded time, until their last bytes are out."""
        for client in list(self.open.values()):
            close_client(client)
        if self.open:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self.all_gone.wait()


def is_behind(client: Client) -> bool:
    """Whether bytes for this client wait for it to take earlier ones."""
    writer = _writer_of(client)
    return writer is not None and writer.transport.get_write_buffer_size() > 0


def stop_reading(client: Client, stream: Layer) -> None:
    """Tell the stream of a client that left that its answer was read on for long enough."""
    if handler := _handler_of(client):
        stop = handler.server_event(StopReading(stream))
        asyncio_utils.create_task(stop, name="stop reading", keep_ref=True)


def close_client(client: Client) -> None:
    """Close a client's connection. What was written to it before is still delivered."""
    handler = _handler_of(client)
    transport = handler.transports.get(client) if handler else None
    if transport and transport.handler:
        transport.handler.cancel("closed by the gateway")


def _harden(handler: ConnectionHandler) -> None:
    """Cure three things of mitmproxy's handler of one client connection, for ``serve`` and ``mitmdump`` alike."""
    handler.max_conns = collections.defaultdict(
        lambda: asyncio.Semaphore(MAX_UPSTREAM_CONNECTIONS_PER_CLIENT)
    )
    stock = handler.handle_connection

    async def handle_connection(connection: Connection) -> None:
        io = handler.transports.get(connection)
        if io and isinstance(io.writer, asyncio.StreamWriter):
            _keep_alive(io.writer.get_extra_info("socket"))
        try:
            await stock(connection)
        finally:
            # A connection that is given up while its peer is still sending may be cancelled where mitmproxy does not
            # expect it, at a lock; its socket would stay open, unread, for as long as the process lives.
            left = handler.transports.pop(connection, None)
            if left and left.writer:
                left.writer.close()

    handler.handle_connection = handle_connection  # type: ignore[method-assign]


def _keep_alive(raw: socket.socket) -> None:
    """Let the kernel find out that a silent peer is gone, client or provider. Source: tcp(7)."""
    with suppress(OSError):  # It may have been closed meanwhile.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if option := getattr(socket, name, None):
                raw.setsockopt(socket.IPPROTO_TCP, option, value)


def _writer_of(client: Client) -> asyncio.StreamWriter | None:
    handler = _handler_of(client)
    transport = handler.transports.get(client) if handler else None
    writer = transport.writer if transport else None
    return writer if isinstance(writer, asyncio.StreamWriter) else None


def _handler_of(client: Client) -> ConnectionHandler | None:
    proxyserver = ctx.master.addons.get("proxyserver")
    return proxyserver.connections.get(client.id) if proxyserver else None
