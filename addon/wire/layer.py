"""One client connection inside mitmproxy: our read loop, mitmproxy's layers for TLS, and the HTTP connection.

``serve``, mitmdump and mitmweb alike: ``ClientConnection`` takes the place of the handler's own reading. Plain bytes go
straight to the HTTP connection; those of TLS go through ``handler.server_event`` and mitmproxy's TLS layer, whose child
is ``GatewayLayer``. What is sent to a TLS client is encrypted by that layer's own ``send_data``: it and
``receive_data`` leave OpenSSL only between two whole steps, so that one may run within the other.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from mitmproxy.connection import Client, ConnectionState
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import CommandGenerator, Layer
from mitmproxy.proxy.layers.tls import TLSLayer
from mitmproxy.proxy.server import ConnectionHandler
from OpenSSL import SSL

from addon.runtime.deadline import MovableDeadline
from addon.wire.connection import Connection, ServeStream, WireSettings
from addon.wire.http1 import Http1Connection
from addon.wire.http2 import Http2Connection
from addon.wire.transport import ClientSocket
from policies.refusal import Refusal

log = logging.getLogger("tollgate.wire")

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_UNDECIDED_BYTES = 65_536
"""What a client may send before it is clear what it speaks, and a read more: TLS handshakes, mostly."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What every client connection of a process is served with."""

    serve_stream: ServeStream
    settings: WireSettings


class ClientConnection:
    """One client connection of a mitmproxy handler, from its first byte until its socket is closed."""

    def __init__(
        self,
        handler: ConnectionHandler,
        transport: asyncio.Transport,
        reader: asyncio.StreamReader,
        serving: Serving,
        buffer: memoryview,
    ) -> None:
        self.client: Client = handler.client
        self.connection: Connection | None = None
        self._handler = handler
        self._peer: tuple[str, int] = (handler.client.peername[0], handler.client.peername[1])
        self._transport = transport
        self._reader = reader
        self._serving = serving
        self._uses_layers = True
        self._passing: set[asyncio.Task[None]] = set()
        self._first_bytes = b""
        self._undecided_bytes = 0
        self.socket = ClientSocket(transport, self, buffer, serving.settings.write_timeout_s)
        self._deadline: MovableDeadline | None = MovableDeadline(self._expire)
        self._deadline.set(serving.settings.head_timeout_s)
        # What its own reader has is passed on when the handler runs this connection.
        transport.pause_reading()
        self.socket.take_over()

    async def run(self) -> None:
        """Serve the client until its socket is closed. Calls of a client that left may go on."""
        try:
            self._reader.feed_eof()
            if early := await self._reader.read(-1):
                self.data_received(early)
            self._transport.resume_reading()
            await self.socket.closed
        finally:
            # mitmproxy cancels this where a layer asks to close: what was sent before is still delivered.
            self._handler.transports.pop(self.client, None)
            self.client.state = ConnectionState.CLOSED
            self.socket.close()

    # What the socket says.

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client: of HTTP, or of TLS."""
        if self._uses_layers or self._passing:
            if self.connection is None:
                self._undecided_bytes += len(data)
                if self._undecided_bytes > MAX_UNDECIDED_BYTES:
                    # Read on once the layers have let a connection come about, within the time for that.
                    self.socket.pause_reading()
            self._pass(events.DataReceived(self.client, data))
        else:
            self.receive(data)

    def eof_received(self) -> None:
        """Take that the client sends no more."""
        self.client.state &= ~ConnectionState.CAN_READ
        if self._uses_layers or self._passing:
            self._pass(events.ConnectionClosed(self.client))
        else:
            self.end()

    def connection_lost(self) -> None:
        """The socket is closed."""
        if self._deadline:
            self._deadline.close()
        if self.connection:
            self.connection.connection_lost()

    def _pass(self, event: events.Event) -> None:
        """Give ``event`` to mitmproxy's layers. Mostly done when this returns."""
        task = asyncio.get_running_loop().create_task(self._handler.server_event(event))
        if not task.done():
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)

    # What the innermost layer says.

    def start(self, tls: TLSLayer | None) -> None:
        """The layers are decided: what comes from here on is HTTP."""
        self._uses_layers = tls is not None
        if tls is not None:
            encryption = Encryption(tls)
            self.socket.use_tls(encryption.encrypt, encryption.end)
            if self.client.alpn == b"h2":
                self._open(Http2Connection, b"")

    def receive(self, data: bytes) -> None:
        """Take bytes of HTTP, which passed the layers. A fault of ours closes the connection."""
        try:
            if self.connection is not None:
                self.connection.data_received(data)
            else:
                self.decide(data)
        except Exception:
            log.exception("a client connection failed", extra={"event": "connection failed"})
            self.socket.abort()

    def decide(self, data: bytes) -> None:
        """Find out by the first bytes what the client speaks."""
        first = self._first_bytes + data
        if first[: len(HTTP2_PREFACE)] == HTTP2_PREFACE[: len(first)]:
            if len(first) < len(HTTP2_PREFACE):
                self._first_bytes = first
            else:
                self._open(Http2Connection, first)
        else:
            self._open(Http1Connection, first)

    def refuse(self, refusal: Refusal) -> None:
        """Answer in plain HTTP whatever the client sent, and close."""
        if self.connection is None:
            one = Http1Connection(self.socket, self._serving.serve_stream, self._serving.settings, self._peer)
            self._use(one)
            one.refuse(refusal)

    def _expire(self) -> None:
        if self._first_bytes:
            self.refuse(Refusal("request_timeout", "The request head did not arrive in time."))
        else:
            self.socket.close()

    def end(self) -> None:
        """Take that no more HTTP comes."""
        if self.connection is not None:
            self.connection.eof_received()
        else:
            self.socket.close()

    def _open(self, kind: type[Http1Connection] | type[Http2Connection], first: bytes) -> None:
        connection = kind(self.socket, self._serving.serve_stream, self._serving.settings, self._peer)
        self._use(connection)
        if first:
            connection.data_received(first)

    def _use(self, connection: Connection) -> None:
        self.connection = connection
        self.socket.resume_reading()
        self._first_bytes = b""
        if self._deadline:
            self._deadline.close()
            self._deadline = None


class Encryption:
    """Sends through mitmproxy's TLS layer."""

    def __init__(self, layer: TLSLayer) -> None:
        self._layer = layer

    def encrypt(self, data: bytes) -> bytes:
        """Return the records for ``data``; nothing where the client ended TLS, or broke it."""
        try:
            return _sent(self._layer.send_data(data))
        except SSL.Error:
            return b""

    def end(self) -> bytes:
        """Return close_notify: without it a body that ends with its connection would seem cut off."""
        try:
            self._layer.tls.shutdown()
            return _sent(self._layer.tls_interact())
        except SSL.Error:
            return b""


def _sent(generator: CommandGenerator[None]) -> bytes:
    return b"".join([command.data for command in generator if isinstance(command, commands.SendData)])


class GatewayLayer(Layer):
    """The innermost layer: hands what the layers above it made of a client's bytes to its ``ClientConnection``."""

    def __init__(self, context: Context, find: Callable[[Client], ClientConnection | None]) -> None:
        super().__init__(context)
        self._find = find
        self._client: ClientConnection | None = None

    def _handle_event(self, event: events.Event) -> CommandGenerator[None]:
        if isinstance(event, events.Start):
            self._client = self._find(self.context.client)
            tls = [layer for layer in self.context.layers if isinstance(layer, TLSLayer)]
            if self._client:
                self._client.start(tls[-1] if tls else None)
        elif self._client is None:
            # Nobody admitted this client.
            yield commands.CloseConnection(self.context.client)
        elif isinstance(event, events.DataReceived):
            self._client.receive(event.data)
        elif isinstance(event, events.ConnectionClosed):
            self._client.end()


class PlainHttpLayer(GatewayLayer):
    """Tells a client that speaks plain HTTP to a port of TLS, in plain HTTP, what is wrong."""

    def _handle_event(self, event: events.Event) -> CommandGenerator[None]:
        if self._client and isinstance(event, events.DataReceived):
            told = "This port speaks HTTPS: begin the base URL with https://."
            self._client.refuse(Refusal("bad_request", told))
        else:
            yield from super()._handle_event(event)
