"""TLS toward clients, with the operator's certificate. No log line repeats what a client sent."""

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
    """The operator's certificate for clients. Each handshake uses the file's current content.

    A file that can't be used may be half written. The last certificate that was read then stays in use.
    """

    def __init__(self) -> None:
        self._read: tuple[Path, int, int] | None = None
        self._context: SSL.Context | None = None

    def start_client(self, data: TlsData, certificate: Path) -> None:
        """Accept TLS of a client with ``certificate``: a PEM file with the private key and the chain."""
        connection = SSL.Connection(self.context(certificate))
        connection.set_accept_state()
        data.ssl_conn = connection

    def context(self, certificate: Path) -> SSL.Context:
        """Return the context of the file's certificate. Raise OSError or SSL.Error if none was ever read."""
        try:
            stat = certificate.stat()
            read = certificate, stat.st_mtime_ns, stat.st_size
            if self._context is None or read != self._read:
                self._context = _client_context(certificate)
                self._read = read
        except (OSError, SSL.Error):
            # The watcher of the settings reports what is wrong with the file.
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
    # An idle connection then keeps no record buffers. They take 34 KB each, and thousands of streams may be open.
    context.set_mode(_RELEASE_BUFFERS)
    return context


def _choose_protocol(_connection: SSL.Connection, offered: list[bytes]) -> Any:
    return next((ours for ours in CLIENT_PROTOCOLS if ours in offered), SSL.NO_OVERLAPPING_PROTOCOLS)


NO_TLS = "the client did not speak TLS"
CLIENT_LEFT = "the client left"
HANDSHAKE_INTERRUPTED = "the handshake was interrupted"
_REASONS = {
    "Cannot parse ClientHello": NO_TLS,
    "connection closed": CLIENT_LEFT,
    "unsupported protocol": "no TLS version in common",
    "no shared cipher": "no cipher in common",
    "unknown ca": "the client does not trust the certificate",
    "bad certificate": "the client does not trust the certificate",
    "certificate unknown": "the client does not trust the certificate",
}
"""From a part of mitmproxy's or OpenSSL's message to the reason in our log, which has nothing that a peer sent."""

MAX_HELLO_BYTES: Final = 16_384
"""The bound of a ClientHello with its records. With today's largest key shares it has at most 2 KB."""
MAX_HELLO_RECORDS: Final = 16
_RECORD_HEADER_BYTES: Final = 5


class ClientTls(tls.ClientTLSLayer):
    """mitmproxy's TLS layer, with bounds. It logs nothing that a client sent.

    mitmproxy itself parses a whole ClientHello again for each piece of it, and logs a malformed one as hex digits. It
    goes on after a TLS error and logs another error for each later read. It fails on bytes after a failed handshake.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._has_failed = False
        self._records = HelloRecords()

    def receive_handshake_data(self, data: bytes) -> layer.CommandGenerator[tuple[bool, str | None]]:
        """Handle bytes of a handshake. Parse a ClientHello once for each of its records."""
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
        """Set the reason in our own words. ``tls_failed_client`` logs it."""
        self._has_failed = True
        yield from tls.TLSLayer.on_handshake_error(self, _reason_for_log(err, HANDSHAKE_INTERRUPTED))
        self.event_to_child = self.errored  # type: ignore[method-assign]

    def receive_data(self, data: bytes) -> layer.CommandGenerator[None]:
        """Handle bytes after the handshake. An error of TLS ends the connection, as none can be recovered from."""
        if self._has_failed:
            return
        error = ""
        for command in super().receive_data(data):
            if isinstance(command, commands.Log):
                error = command.message
            else:
                yield command
        if error:
            self._has_failed = True
            self.conn.error = _reason_for_log(error, "the bytes after the handshake are not TLS")
            yield tls.TlsFailedClientHook(TlsData(self.conn, self.context, self.tls))
            yield commands.CloseConnection(self.conn)


def _reason_for_log(error: str, default: str) -> str:
    return next((reason for part, reason in _REASONS.items() if part in error), default)


class HelloRecords:
    """A counter of the records of a ClientHello. It keeps the bytes since the last complete record."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._header = b""
        self._left = 0
        self._bytes = self._records = 0

    def feed(self, data: bytes) -> bool:
        """Keep bytes and return whether they complete a record. Raise ValueError when they exceed a ClientHello."""
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
        """Return the kept bytes and forget them."""
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
