"""mitmproxy's hooks for client connections, and the listener of ``serve``."""

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
from addon.wire.client_connection import WireConfig
from addon.wire.clients import Clients, max_clients
from addon.wire.mitmproxy_layers import PlainHttpLayer

log = logging.getLogger("tollgate.connections")


class ClientHooks:
    """The hooks of client connections. An addon inherits or calls them. They are the same in every mode.

    ``certificate`` returns the PEM file for TLS toward clients, or None for plain HTTP.
    """

    def __init__(self, config: WireConfig, certificate: Callable[[], Path | None]) -> None:
        self.clients = Clients(max_clients(), config)
        self._certificate = certificate
        self._certificates = tls.ServerCertificates()
        self._tls_failures = LogLimit(log)

    @property
    def speaks_tls(self) -> bool:
        """Whether clients must use TLS."""
        return self._certificate() is not None

    def client_connected(self, client: Client) -> None:
        self.clients.client_connected(client)

    def client_disconnected(self, client: Client) -> None:
        self.clients.client_disconnected(client)

    def next_layer(self, data: NextLayer) -> None:
        if not self.speaks_tls or data.context.client.tls:
            data.layer = self.clients.make_layer(data.context)
        elif tls.is_tls(first := data.data_client()):
            data.layer = tls.ClientTls(data.context)
        elif first:
            data.layer = self.clients.make_layer(data.context, PlainHttpLayer)

    def tls_start_client(self, data: TlsData) -> None:
        if certificate := self._certificate():
            self._certificates.start_client(data, certificate)

    def tls_failed_client(self, data: TlsData) -> None:
        if data.conn.error != tls.CLIENT_LEFT:
            message = f"a client's TLS handshake failed: {data.conn.error}"
            self._tls_failures.warning(message, event="client tls failed")


class Listener(Proxyserver):
    """mitmproxy's server on a socket that already listens, with only the layers that a client needs."""

    name = "proxyserver"

    def __init__(self, host: ClientHooks, mode: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._host = host
        self._mode = ProxyMode.parse(mode)

    def configure(self, updated: set[str]) -> None:
        """Do nothing: ``accept`` is called directly."""

    async def accept(self, sock: socket.socket) -> asyncio.Server:
        """Start to accept clients on ``sock``."""
        return await asyncio.start_server(self.handle_stream, sock=sock, backlog=LISTEN_BACKLOG)

    async def handle_stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client connection until it ends."""
        handler = ProxyConnectionHandler(ctx.master, reader, writer, ctx.options, self._mode)
        context = handler.layer.context
        # Without TLS, the gateway's layer is the first one, and no ``next_layer`` hook is needed.
        handler.layer = (
            ReverseProxy(context) if self._host.speaks_tls else self._host.clients.make_layer(context)
        )
        with self.register_connection(handler.client.id, handler):
            await handler.handle_client()
