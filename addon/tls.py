"""TLS toward clients, with the operator's certificate. Toward providers it is mitmproxy's own, verified as always."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from mitmproxy.addons.tlsconfig import TlsConfig
from mitmproxy.tls import TlsData
from OpenSSL import SSL

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
