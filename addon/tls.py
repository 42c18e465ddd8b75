"""TLS toward clients, with the operator's certificate; what they send is repeated in no log.

Toward providers it is mitmproxy's own, verified as always.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from mitmproxy.addons.tlsconfig import TlsConfig
from mitmproxy.net.http import http1
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers import tls
from mitmproxy.tls import TlsData
from OpenSSL import SSL

from addon.errors import from_refusal
from addon.hop_wire import json_response
from policies.refusal import Refusal

CLIENT_PROTOCOLS = (b"h2", b"http/1.1")
UPSTREAM_PROTOCOLS = (b"http/1.1",)


class UpstreamTls(TlsConfig):
    """mitmproxy's TLS addon without its certificate store: a gateway forges no certificates."""

    name = "tlsconfig"
    tls_start_client = None  # type: ignore[assignment]  # ``start_client`` does that, with the operator's certificate.
    request = None  # type: ignore[assignment]  # No revocation list is served either.

    def configure(self, updated: set[str]) -> None:
        """Make nothing: the store would be written into the user's home."""


def start_client(data: TlsData, certificate: Path) -> None:
    """Accept a client's TLS with ``certificate``: a PEM with the private key and the chain."""
    # The file's time is in the cache's key, so that a renewed certificate is used at once.
    connection = SSL.Connection(_client_context(certificate, certificate.stat().st_mtime_ns))
    connection.set_accept_state()
    data.ssl_conn = connection


@lru_cache(maxsize=2)
def _client_context(certificate: Path, _mtime_ns: int) -> SSL.Context:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.use_certificate_chain_file(str(certificate))
    context.use_privatekey_file(str(certificate))
    context.check_privatekey()
    context.set_alpn_select_callback(_choose_protocol)
    return context


def _choose_protocol(_connection: SSL.Connection, offered: list[bytes]) -> Any:
    return next((ours for ours in CLIENT_PROTOCOLS if ours in offered), SSL.NO_OVERLAPPING_PROTOCOLS)


NO_TLS = "what came is no TLS"
LEFT = "the client left"
_FAULTS = {
    "Cannot parse ClientHello": NO_TLS,
    "connection closed": LEFT,
    "unsupported protocol": "no TLS version in common",
    "no shared cipher": "no cipher in common",
    "unknown ca": "the client does not trust the certificate",
    "bad certificate": "the client does not trust the certificate",
    "certificate unknown": "the client does not trust the certificate",
}
"""What mitmproxy and OpenSSL say of a failed handshake, and what is logged of it: nothing that a peer sent."""


class ClientTls(tls.ClientTLSLayer):
    """mitmproxy's layer, which would log what a client sent in place of a handshake, as hex digits."""

    def on_handshake_error(self, err: str) -> layer.CommandGenerator[None]:
        """Say why in words of our own. ``tls_failed_client`` logs them."""
        told = next((told for said, told in _FAULTS.items() if said in err), "the handshake broke off")
        yield from tls.TLSLayer.on_handshake_error(self, told)
        self.event_to_child = self.errored  # type: ignore[method-assign]


def is_tls(first_bytes: bytes) -> bool:
    """Return whether a client begins with a TLS record of the type handshake. Source: RFC 8446, 5.1."""
    return first_bytes[:1] == b"\x16"


class PlainHttp(layer.Layer):
    """Tells a client that speaks plain HTTP to a port of TLS, in plain HTTP, what is wrong.

    What it sends is read and dropped: closing on unread bytes would reset the connection and take the answer away. The
    connection ends with the client, or like that of one which never greets: ``clients.Clients``.
    """

    answered = False

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, events.DataReceived) and not self.answered:
            self.answered = True
            told = Refusal("bad_request", "This port speaks HTTPS: begin the base URL with https://.")
            response = json_response(from_refusal(told), close=True)
            yield commands.SendData(self.context.client, http1.assemble_response(response))
            yield commands.CloseTcpConnection(self.context.client, half_close=True)
        elif isinstance(event, events.ConnectionClosed):
            yield commands.CloseConnection(self.context.client)
