"""TLS toward clients, with the operator's certificate; what they send is repeated in no log."""

from pathlib import Path
from typing import Any, Final

from mitmproxy.proxy import commands, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import tls
from mitmproxy.tls import TlsData
from OpenSSL import SSL

CLIENT_PROTOCOLS = (b"h2", b"http/1.1")
_RELEASE_BUFFERS = 0x10  # SSL_MODE_RELEASE_BUFFERS of OpenSSL


class ServerCertificates:
    """The operator's certificate for clients, as its file has it at each handshake.

    A file that can't be used, perhaps because it is being written, leaves the certificate that was last read in place.
    """

    def __init__(self) -> None:
        self._read: tuple[Path, int, int] | None = None
        self._context: SSL.Context | None = None

    def start_client(self, data: TlsData, certificate: Path) -> None:
        """Accept a client's TLS with ``certificate``: a PEM with the private key and the chain."""
        connection = SSL.Connection(self.context(certificate))
        connection.set_accept_state()
        data.ssl_conn = connection

    def context(self, certificate: Path) -> SSL.Context:
        """Return what serves the file's certificate. Raises OSError and SSL.Error where none was ever read."""
        try:
            stat = certificate.stat()
            read = certificate, stat.st_mtime_ns, stat.st_size
            if self._context is None or read != self._read:
                self._context = _client_context(certificate)
                self._read = read
        except (OSError, SSL.Error):
            # The watcher of the settings says what is wrong with the file.
            if self._context is None:
                raise
        return self._context


def _client_context(certificate: Path) -> SSL.Context:
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
BROKE_OFF = "the handshake broke off"
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

MAX_HELLO_BYTES: Final = 16_384
"""Of a ClientHello and its records. It has 2 KB at most with today's largest key shares."""
MAX_HELLO_RECORDS: Final = 16
_RECORD_HEADER_BYTES: Final = 5


class ClientTls(tls.ClientTLSLayer):
    """mitmproxy's layer, with bounds, and silent about what a client sent.

    mitmproxy parses all of a ClientHello again whenever a piece of it comes, and logs what is none as hex digits. It
    goes on after a fault of TLS, logs one for each later read, and fails where bytes come behind a failed handshake.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._has_failed = False
        self._records = HelloRecords()

    def receive_handshake_data(self, data: bytes) -> layer.CommandGenerator[tuple[bool, str | None]]:
        """Take bytes of a handshake, and look at a ClientHello once for each of its records."""
        if not self.client_hello_parsed:
            try:
                has_more = self._records.feed(data)
            except ValueError:
                return False, "Cannot parse ClientHello"
            if not has_more:
                return False, None
            data = self._records.take()
        return (yield from super().receive_handshake_data(data))

    def on_handshake_error(self, err: str) -> layer.CommandGenerator[None]:
        """Say why in words of our own. ``tls_failed_client`` logs them."""
        self._has_failed = True
        yield from tls.TLSLayer.on_handshake_error(self, _told(err, BROKE_OFF))
        self.event_to_child = self.errored  # type: ignore[method-assign]

    def receive_data(self, data: bytes) -> layer.CommandGenerator[None]:
        """Take bytes behind the handshake. A fault of TLS ends the connection: none can be got over."""
        if self._has_failed:
            return
        fault = ""
        for command in super().receive_data(data):
            if isinstance(command, commands.Log):
                fault = command.message
            else:
                yield command
        if fault:
            self._has_failed = True
            self.conn.error = _told(fault, "what came behind the handshake is no TLS")
            yield tls.TlsFailedClientHook(TlsData(self.conn, self.context, self.tls))
            yield commands.CloseConnection(self.conn)


def _told(fault: str, otherwise: str) -> str:
    return next((told for said, told in _FAULTS.items() if said in fault), otherwise)


class HelloRecords:
    """Counts the records of a ClientHello, and keeps what came since one last ended."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._header = b""
        self._left = 0
        self._bytes = self._records = 0

    def feed(self, data: bytes) -> bool:
        """Keep bytes; return whether they complete a record. Raises ValueError where they are no mere greeting."""
        self._kept += data
        has_ended = False
        at = 0
        while at < len(data):
            if not self._left:
                missing = _RECORD_HEADER_BYTES - len(self._header)
                self._header += data[at : at + missing]
                at += missing
                if len(self._header) == _RECORD_HEADER_BYTES:
                    self._begin(int.from_bytes(self._header[3:]))
            else:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                has_ended = has_ended or not self._left
        return has_ended

    def take(self) -> bytes:
        """Return what was kept."""
        kept = bytes(self._kept)
        self._kept.clear()
        return kept

    def _begin(self, length: int) -> None:
        self._header, self._left = b"", length
        self._bytes += length
        self._records += 1
        if not length or self._bytes > MAX_HELLO_BYTES or self._records > MAX_HELLO_RECORDS:
            raise ValueError("the ClientHello is too long, or in too many records")


def is_tls(first_bytes: bytes) -> bool:
    """Return whether a client begins with a TLS record of the type handshake. Source: RFC 8446, 5.1."""
    return first_bytes[:1] == b"\x16"
