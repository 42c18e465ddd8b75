"""TLS toward clients, with the operator's certificate; what they send is repeated in no log."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from mitmproxy.proxy import layer
from mitmproxy.proxy.layers import tls
from mitmproxy.tls import TlsData
from OpenSSL import SSL

CLIENT_PROTOCOLS = (b"h2", b"http/1.1")
_RELEASE_BUFFERS = 0x10  # SSL_MODE_RELEASE_BUFFERS of OpenSSL


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
    # An idle connection keeps no buffers for records: 34 KB each, with thousands of open streams.
    context.set_mode(_RELEASE_BUFFERS)
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
