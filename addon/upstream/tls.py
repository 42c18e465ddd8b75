"""TLS toward providers, between a plain transport and a connection.

asyncio's TLS keeps buffers of 256 KiB for each connection. This one keeps no buffer between two reads.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

import certifi

from addon.runtime.read_buffer import get_buffer_of
from addon.upstream.provider_socket import ProviderSocket

RECORD_BYTES: Final = 16 * 1024
WRITE_BYTES: Final = 128 * 1024


def make_context() -> ssl.SSLContext:
    """Return the context of all connections.

    It trusts the authorities of ``SSL_CERT_FILE``, else those of the system, else those of certifi.
    """
    paths = ssl.get_default_verify_paths()
    has_none = paths.cafile is None and paths.capath is None
    context = ssl.create_default_context(cafile=certifi.where() if has_none else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """The client's end of TLS: a protocol for the plain transport, and a transport for the protocol of ``make``.

    ``ready`` resolves to that protocol after the handshake, or to the error of the handshake.
    """

    def __init__(
        self, context: ssl.SSLContext, buffer: memoryview, host: str, make: Callable[[], ProviderSocket]
    ) -> None:
        super().__init__()
        self._buffer = buffer
        self.get_buffer = get_buffer_of(buffer)  # type: ignore[method-assign, assignment]
        self.ready: asyncio.Future[ProviderSocket] = asyncio.get_running_loop().create_future()
        self._make = make
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._lower: asyncio.Transport | None = None
        self._upper: ProviderSocket | None = None
        self._error: Exception | None = None
        self._backlog: deque[memoryview] = deque()
        self._is_blocked = False
        self._is_ended = False
        self._began_at_s: float | None = None
        self.round_trip_s: float | None = None
        """How long the first answer of the handshake took: the way to the provider and back."""

    # The protocol of the plain transport (``_lower``).

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake."""
        self._lower = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(0)
        self._handshake()

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt the bytes of a read and pass them on as one piece."""
        pieces: list[bytes] = []
        for at in range(0, nbytes, RECORD_BYTES):
            self._incoming.write(self._buffer[at : min(at + RECORD_BYTES, nbytes)])
            if self._upper is None and not self._handshake():
                continue
            self._decrypt(pieces)
        if pieces and self._upper is not None:
            self._upper.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if self._backlog and not self._is_blocked:
            self.resume_writing()  # A handshake that the peer started had to end first.
        if self._is_ended and self._upper is not None:
            self._upper.eof_received()
            self.close()

    def eof_received(self) -> None:
        """Handle the end of the plain transport. Without TLS's close_notify, data may be missing."""
        if not self._is_ended and self._error is None:
            self._error = ConnectionResetError("the peer closed without close_notify")

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end to the protocol above."""
        self._lower = None
        self._backlog.clear()
        error = self._error or exc
        if not self.ready.done():
            self.ready.set_exception(error or ConnectionResetError("the connection was closed"))
            self.ready.exception()  # The caller may have stopped waiting.
        if self._upper is not None:
            self._upper.connection_lost(error)

    def pause_writing(self) -> None:
        """Stop encrypting."""
        self._is_blocked = True
        if self._upper is not None:
            self._upper.pause_writing()

    def resume_writing(self) -> None:
        """Encrypt the waiting data."""
        self._is_blocked = False
        self._encrypt()
        if self._upper is not None and not self._is_blocked and not self._backlog:
            self._upper.resume_writing()

    # The transport of the protocol above (``_upper``).

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send ``data``. Keep the rest until the peer reads."""
        if self._lower is not None and data:
            self._backlog.append(memoryview(data))
            self._encrypt()
            if self._backlog and not self._is_blocked and self._upper is not None:
                self._upper.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: ``resume_writing`` always means that the kernel has everything."""

    def pause_reading(self) -> None:
        """Stop reading."""
        if self._lower is not None:
            self._lower.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._lower is not None:
            self._lower.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As the plain transport."""
        return self._lower.get_extra_info(name, default) if self._lower is not None else default

    def is_closing(self) -> bool:
        """Return whether it is closed, or closes now."""
        return self._lower is None or self._lower.is_closing()

    def close(self) -> None:
        """Send close_notify and close. Everything written before is still sent."""
        if self._lower is not None:
            self._send_close_notify()
            self._lower.close()

    def abort(self) -> None:
        """Close at once."""
        if self._lower is not None:
            self._lower.abort()

    # Inside.

    def _handshake(self) -> bool:
        if self._lower is None or self._lower.is_closing():
            return False
        self._measure_round_trip()
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except (ssl.SSLError, ssl.CertificateError) as error:
            self._flush()
            self._break(error)
            return False
        self._upper = self._make()
        self._upper.connection_made(self)
        if not self.ready.done():
            self.ready.set_result(self._upper)
        return True

    def _measure_round_trip(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._began_at_s is None:
            self._began_at_s = now_s
        elif self.round_trip_s is None:
            self.round_trip_s = now_s - self._began_at_s

    def _decrypt(self, pieces: list[bytes]) -> None:
        try:
            while self._incoming.pending or self._tls.pending():
                piece = self._tls.read(RECORD_BYTES)
                if not piece:
                    self._is_ended = True
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._is_ended = True
        except ssl.SSLError as error:
            self._break(error)
        self._flush()

    def _encrypt(self) -> None:
        try:
            while self._backlog and not self._is_blocked and self._lower is not None:
                self._encrypt_some(self._backlog.popleft())
        except ssl.SSLWantReadError:
            self._flush()  # TLS 1.2 allows another handshake here. ``buffer_updated`` goes on after it.
        except ssl.SSLError as error:
            self._break(error)

    def _encrypt_some(self, view: memoryview) -> None:
        written = 0
        try:
            while written < min(len(view), WRITE_BYTES):
                written += self._tls.write(view[written : written + RECORD_BYTES])
        finally:
            if written < len(view):
                self._backlog.appendleft(view[written:])
        self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending and self._lower is not None:
            self._lower.write(self._outgoing.read())

    def _send_close_notify(self) -> None:
        if self._upper is not None and not self._backlog:
            with suppress(ssl.SSLError):  # The close_notify of the peer is not awaited.
                self._tls.unwrap()
            self._flush()

    def _break(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        if self._lower is not None:
            # In the next turn: asyncio calls ``connection_lost`` twice after an abort within ``resume_writing``.
            asyncio.get_running_loop().call_soon(self._lower.abort)
