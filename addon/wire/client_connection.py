"""One client connection inside mitmproxy: our read loop, mitmproxy's layers for TLS, and the HTTP connection.

``ClientConnection`` replaces the reading of mitmproxy's handler, in ``serve``, mitmdump and mitmweb alike. Plain bytes
go straight to the HTTP connection. TLS bytes go through ``handler.server_event`` and mitmproxy's TLS layer, whose child
is ``mitmproxy_layers.GatewayLayer``. ``send_data`` of the TLS layer encrypts the bytes to a TLS client. It and
``receive_data`` leave OpenSSL only between two whole steps, so one may run within the other.
"""

import asyncio
import logging
from dataclasses import dataclass

from mitmproxy.connection import Client, ConnectionState
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layer import CommandGenerator
from mitmproxy.proxy.layers.tls import TLSLayer
from mitmproxy.proxy.server import ConnectionHandler
from OpenSSL import SSL

from addon.runtime.deadline import MovableDeadline
from addon.wire.connection import Connection, ServeStream, WireSettings
from addon.wire.http1 import Http1Connection
from addon.wire.http2 import Http2Connection
from addon.wire.http2_frames import PREFACE
from addon.wire.transport import ClientSocket
from policies.refusal import Refusal

log = logging.getLogger("tollgate.wire")

MAX_UNDECIDED_BYTES = 65_536
"""A client may send this and one read more before its protocol is known. Most of it is the TLS handshake."""


@dataclass(frozen=True, slots=True)
class WireConfig:
    """How all client connections of a process are served: the coroutine of each stream, and the bounds."""

    serve_stream: ServeStream
    settings: WireSettings


class ClientConnection:
    """One client connection of a mitmproxy handler, from its first byte until its socket is closed."""

    def __init__(
        self,
        handler: ConnectionHandler,
        transport: asyncio.Transport,
        reader: asyncio.StreamReader,
        config: WireConfig,
        buffer: memoryview,
    ) -> None:
        self.client: Client = handler.client
        self.connection: Connection | None = None
        self.is_retiring = False
        """Whether a connection of HTTP that is still to be made retires at once."""
        self._handler = handler
        self._peer: tuple[str, int] = (handler.client.peername[0], handler.client.peername[1])
        self._transport = transport
        self._reader = reader
        self._config = config
        self._uses_layers = True
        self._layer_tasks: set[asyncio.Task[None]] = set()
        self._first_bytes = b""
        self._undecided_bytes = 0
        self.socket = ClientSocket(transport, self, buffer, config.settings.write_timeout_s)
        self._deadline: MovableDeadline | None = MovableDeadline(self._expire)
        self._deadline.set(config.settings.head_timeout_s)
        # ``run`` passes on what the handler's reader has already read.
        transport.pause_reading()
        self.socket.attach()

    async def run(self) -> None:
        """Serve the client until its socket is closed. Its calls may go on after that."""
        try:
            self._reader.feed_eof()
            if early := await self._reader.read(-1):
                self.data_received(early)
            self._transport.resume_reading()
            await self.socket.closed
        finally:
            # mitmproxy cancels this when a layer asks to close. Bytes that were sent before are still delivered.
            self._handler.transports.pop(self.client, None)
            self.client.state = ConnectionState.CLOSED
            self.socket.close()

    # Called by the socket.

    def data_received(self, data: bytes) -> None:
        """Handle bytes of the client, HTTP or TLS."""
        if self._uses_layers or self._layer_tasks:
            if self.connection is None:
                self._undecided_bytes += len(data)
                if self._undecided_bytes > MAX_UNDECIDED_BYTES:
                    # Reading goes on when the layers have decided on a connection. ``_deadline`` bounds the wait.
                    self.socket.pause_reading()
            self._pass_to_layers(events.DataReceived(self.client, data))
        else:
            # From now on no byte passes through the layers.
            self.socket.receive = self.receive
            self.receive(data)

    def eof_received(self) -> None:
        """Handle the end of the client's data."""
        self.client.state &= ~ConnectionState.CAN_READ
        if self._uses_layers or self._layer_tasks:
            self._pass_to_layers(events.ConnectionClosed(self.client))
        else:
            self.end()

    def connection_lost(self) -> None:
        """Handle the end of the socket."""
        if self._deadline:
            self._deadline.close()
        if self.connection:
            self.connection.connection_lost()

    def _pass_to_layers(self, event: events.Event) -> None:
        """Give ``event`` to mitmproxy's layers. They have usually handled it when this returns."""
        task = asyncio.get_running_loop().create_task(self._handler.server_event(event))
        if not task.done():
            self._layer_tasks.add(task)
            task.add_done_callback(self._layer_tasks.discard)

    # Called by the innermost layer.

    def start(self, tls: TLSLayer | None) -> None:
        """Expect HTTP from now on: mitmproxy has chosen its layers."""
        self._uses_layers = tls is not None
        if tls is not None:
            encryption = Encryption(tls)
            self.socket.use_tls(encryption.encrypt, encryption.end)
            if self.client.alpn == b"h2":
                self._open(Http2Connection, b"")

    def receive(self, data: bytes) -> None:
        """Handle bytes of HTTP. A bug in the gateway closes the connection."""
        try:
            if self.connection is not None:
                self.connection.data_received(data)
            else:
                self.detect_protocol(data)
        except Exception:
            log.exception("a client connection failed", extra={"event": "connection failed"})
            self.socket.abort()

    def detect_protocol(self, data: bytes) -> None:
        """Find the version of HTTP by the first bytes."""
        first = self._first_bytes + data
        if first[: len(PREFACE)] == PREFACE[: len(first)]:
            if len(first) < len(PREFACE):
                self._first_bytes = first
            else:
                self._open(Http2Connection, first)
        else:
            self._open(Http1Connection, first)

    def refuse(self, refusal: Refusal) -> None:
        """Answer with an error in HTTP/1.1, whatever the client sent, and close."""
        if self.connection is None:
            one = Http1Connection(self.socket, self._config.serve_stream, self._config.settings, self._peer)
            self._use_connection(one)
            one.refuse(refusal)

    def _expire(self) -> None:
        if self._first_bytes:
            self.refuse(Refusal("request_timeout", "The request head did not arrive in time."))
        else:
            self.socket.close()

    def end(self) -> None:
        """Handle the end of the client's HTTP."""
        if self.connection is not None:
            self.connection.eof_received()
        else:
            self.socket.close()

    def _open(self, kind: type[Http1Connection] | type[Http2Connection], first: bytes) -> None:
        connection = kind(self.socket, self._config.serve_stream, self._config.settings, self._peer)
        self._use_connection(connection)
        if first:
            connection.data_received(first)

    def _use_connection(self, connection: Connection) -> None:
        self.connection = connection
        self.socket.resume_reading()
        self._first_bytes = b""
        if self._deadline:
            self._deadline.close()
            self._deadline = None
        if self.is_retiring:
            connection.retire()


class Encryption:
    """The encryption of mitmproxy's TLS layer."""

    def __init__(self, layer: TLSLayer) -> None:
        self._layer = layer

    def encrypt(self, data: bytes) -> bytes:
        """Return the TLS records of ``data``, or nothing when the client ended or broke TLS."""
        try:
            return _bytes_to_send(self._layer.send_data(data))
        except SSL.Error:
            return b""

    def end(self) -> bytes:
        """Return close_notify. Without it, a body that ends with the connection would seem incomplete."""
        try:
            self._layer.tls.shutdown()
            return _bytes_to_send(self._layer.tls_interact())
        except SSL.Error:
            return b""


def _bytes_to_send(generator: CommandGenerator[None]) -> bytes:
    return b"".join([command.data for command in generator if isinstance(command, commands.SendData)])
