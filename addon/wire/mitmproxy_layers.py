"""mitmproxy's innermost layers: they pass the bytes of TLS clients to ``ClientConnection``."""

from collections.abc import Callable

from mitmproxy.connection import Client
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import CommandGenerator, Layer
from mitmproxy.proxy.layers.tls import TLSLayer

from addon.wire.client_connection import ClientConnection
from policies.refusal import Refusal


class GatewayLayer(Layer):
    """mitmproxy's innermost layer. It passes the bytes that the layers above it decrypted to ``ClientConnection``."""

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
            # This client was not admitted.
            yield commands.CloseConnection(self.context.client)
        elif isinstance(event, events.DataReceived):
            self._client.receive(event.data)
        elif isinstance(event, events.ConnectionClosed):
            self._client.end()


class PlainHttpLayer(GatewayLayer):
    """The innermost layer of a client that speaks plain HTTP to a TLS port. It answers with the reason."""

    def _handle_event(self, event: events.Event) -> CommandGenerator[None]:
        if self._client and isinstance(event, events.DataReceived):
            message = "This port speaks HTTPS: begin the base URL with https://."
            self._client.refuse(Refusal("bad_request", message))
        else:
            yield from super()._handle_event(event)
