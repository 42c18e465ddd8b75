"""The hooks of connections, of clients and to upstreams: counted, bounded in time, and TLS where it is asked for."""

import logging

from mitmproxy.connection import Client
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import NextLayer
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.tls import TlsData

from addon import tls
from addon.clients import Clients, max_clients, stop_reading
from addon.connecting import ConnectTimers
from addon.hop import HopLayer
from addon.settings import Settings
from addon.unrelayed import UnrelayedAnswers

log = logging.getLogger("tollgate.connections")


class Connections:
    """What mitmproxy says of connections. ``settings`` are the latest good ones."""

    def __init__(self) -> None:
        self.settings: Settings | None = None
        self.clients = Clients(max_clients())
        self.unrelayed = UnrelayedAnswers(stop_reading)
        self.connecting = ConnectTimers()

    def client_connected(self, client: Client) -> None:
        self.clients.connected(client)
        if self.settings and not self.settings.conf.listen.tls_certificate:
            self.clients.spoke(client)

    async def client_disconnected(self, client: Client) -> None:
        self.clients.disconnected(client)
        # mitmproxy closes the connections to providers when this returns.
        await self.unrelayed.wait_for(client)

    def next_layer(self, data: NextLayer) -> None:
        if not (self.settings and self.settings.conf.listen.tls_certificate) or data.context.client.tls:
            data.layer = self.http_layer(data.context)
        elif tls.is_tls(data.data_client()):
            data.layer = tls.ClientTls(data.context)
        else:
            data.layer = tls.PlainHttp(data.context)

    def http_layer(self, context: Context) -> HopLayer:
        """Return what serves one client connection."""
        return HopLayer(context, self.unrelayed)

    def tls_start_client(self, data: TlsData) -> None:
        if self.settings and self.settings.conf.listen.tls_certificate:
            tls.start_client(data, self.settings.conf.listen.tls_certificate)

    def tls_start_server(self, data: TlsData) -> None:
        data.conn.alpn_offers = tls.UPSTREAM_PROTOCOLS

    def tls_established_client(self, data: TlsData) -> None:
        self.clients.spoke(data.context.client)

    def tls_failed_client(self, data: TlsData) -> None:
        fields = {"event": "client tls failed"}
        if data.conn.error != tls.LEFT:
            log.warning("a client's TLS handshake failed: %s", data.conn.error, extra=fields)

    def tls_established_server(self, data: TlsData) -> None:
        self.connecting.end(data.conn)

    def server_connect(self, data: ServerConnectionHookData) -> None:
        if self.settings:
            self.connecting.begin(data.server, self.settings.conf.upstream.connect_timeout_s)

    def server_connected(self, data: ServerConnectionHookData) -> None:
        if not data.server.tls:
            self.connecting.end(data.server)

    def server_connect_error(self, data: ServerConnectionHookData) -> None:
        self.connecting.end(data.server)

    def server_disconnected(self, data: ServerConnectionHookData) -> None:
        self.connecting.end(data.server)
