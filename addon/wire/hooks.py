"""What mitmproxy calls for client connections, and the listener of ``serve``."""

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path

from mitmproxy import ctx
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.connection import Client
from mitmproxy.proxy.layer import NextLayer
from mitmproxy.proxy.layers.modes import ReverseProxy
from mitmproxy.proxy.mode_servers import ProxyConnectionHandler
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.tls import TlsData

from addon.runtime.listening import LISTEN_BACKLOG
from addon.telemetry.log_limits import LogLimit
from addon.wire import tls
from addon.wire.clients import Clients, max_clients
from addon.wire.layer import PlainHttpLayer, Serving

log = logging.getLogger("tollgate.connections")


class WireHost:
    """The hooks of client connections, for an addon to inherit or to call. The same under any mitmproxy.

    ``certificate`` returns the PEM that clients are served TLS with, or None for plain HTTP.
    """

    def __init__(self, serving: Serving, certificate: Callable[[], Path | None]) -> None:
        self.clients = Clients(max_clients(), serving)
        self._certificate = certificate
        self._certificates = tls.ServerCertificates()
        self._tls_failures = LogLimit(log)

    @property
    def speaks_tls(self) -> bool:
        """Whether clients are served TLS."""
        return self._certificate() is not None

    def client_connected(self, client: Client) -> None:
        self.clients.client_connected(client)

    def client_disconnected(self, client: Client) -> None:
        self.clients.client_disconnected(client)

    def next_layer(self, data: NextLayer) -> None:
        if not self.speaks_tls or data.context.client.tls:
            data.layer = self.clients.layer(data.context)
        elif tls.is_tls(first := data.data_client()):
            data.layer = tls.ClientTls(data.context)
        elif first:
            data.layer = self.clients.layer(data.context, PlainHttpLayer)

    def tls_start_client(self, data: TlsData) -> None:
        if certificate := self._certificate():
            self._certificates.start_client(data, certificate)

    def tls_failed_client(self, data: TlsData) -> None:
        if data.conn.error != tls.LEFT:
            told = "a client's TLS handshake failed"
            self._tls_failures.warning(f"{told}: {data.conn.error}", event="client tls failed")


class Listener(Proxyserver):
    """mitmproxy's server on a socket that listens already, with no more around a client than it needs."""

    name = "proxyserver"

    def __init__(self, host: WireHost, mode: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._host = host
        self._mode = ProxyMode.parse(mode)

    def configure(self, updated: set[str]) -> None:
        """Nothing to configure: ``accept`` is told what to do."""

    async def accept(self, sock: socket.socket) -> asyncio.Server:
        """Begin to accept."""
        return await asyncio.start_server(self.handle_stream, sock=sock, backlog=LISTEN_BACKLOG)

    async def handle_stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client connection to its end."""
        handler = ProxyConnectionHandler(ctx.master, reader, writer, ctx.options, self._mode)
        context = handler.layer.context
        # Without TLS the gateway's layer is the first; nothing has to be asked.
        handler.layer = ReverseProxy(context) if self._host.speaks_tls else self._host.clients.layer(context)
        with self.register_connection(handler.client.id, handler):
            await handler.handle_client()
