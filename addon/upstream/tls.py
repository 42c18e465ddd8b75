"""TLS toward providers, between a plain transport and a connection.

asyncio's own keeps buffers of 256 KiB for each connection; this one keeps none between two reads.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

import certifi

RECORD_BYTES: Final = 16 * 1024
READ_BYTES: Final = 32 * 1024
WRITE_BYTES: Final = 128 * 1024


def make_context() -> ssl.SSLContext:
    """Return the context of all connections.

    Verified by the authorities of ``SSL_CERT_FILE``, else the system's, else those that certifi brings along.
    """
    paths = ssl.get_default_verify_paths()
    has_none = paths.cafile is None and paths.capath is None
    context = ssl.create_default_context(cafile=certifi.where() if has_none else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """The client's end of TLS: a protocol below, and a transport for the protocol that ``make`` gives.

    ``ready`` is that protocol once the handshake is done, or why it failed.
    """

    def __init__(self, context: ssl.SSLContext, host: str, make: Callable[[], asyncio.Protocol]) -> None:
        super().__init__()
        self.ready: asyncio.Future[asyncio.Protocol] = asyncio.get_running_loop().create_future()
        self._make = make
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._lower: asyncio.Transport | None = None
        self._upper: asyncio.Protocol | None = None
        self._error: Exception | None = None
        self._backlog: deque[memoryview] = deque()
        self._is_blocked = False
        self._is_ended = False

    # Protocol of the transport below.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._lower = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(0)
        if hasattr(transport, "max_size"):
            transport.max_size = READ_BYTES  # asyncio's own reads 256 KiB at once.
        self._shake_hands()

    def data_received(self, data: bytes) -> None:
        """Decrypt what came, and give it on as one piece."""
        pieces: list[bytes] = []
        view = memoryview(data)
        for at in range(0, len(data), RECORD_BYTES):
            self._incoming.write(view[at : at + RECORD_BYTES])
            if self._upper is None and not self._shake_hands():
                continue
            self._decrypt(pieces)
        if pieces and self._upper is not None:
            self._upper.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if self._backlog and not self._is_blocked:
            self.resume_writing()  # The peer had begun a handshake, which had to come first.
        if self._is_ended and self._upper is not None:
            self._upper.eof_received()
            self.close()

    def eof_received(self) -> None:
        """The peer closed below TLS: what it said may be cut short, unless it said that it ends."""
        if not self._is_ended and self._error is None:
            self._error = ConnectionResetError("the peer closed without TLS's goodbye")

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the protocol above."""
        self._lower = None
        self._backlog.clear()
        error = self._error or exc
        if not self.ready.done():
            self.ready.set_exception(error or ConnectionResetError("the connection was closed"))
            self.ready.exception()  # Nobody may be waiting for it any more.
        if self._upper is not None:
            self._upper.connection_lost(error)

    def pause_writing(self) -> None:
        """Encrypt no more for now."""
        self._is_blocked = True
        if self._upper is not None:
            self._upper.pause_writing()

    def resume_writing(self) -> None:
        """Encrypt what is left."""
        self._is_blocked = False
        self._encrypt()
        if self._upper is not None and not self._is_blocked and not self._backlog:
            self._upper.resume_writing()

    # Transport of the protocol above.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send ``data``, or keep what the peer does not take yet."""
        if self._lower is not None and data:
            self._backlog.append(memoryview(data))
            self._encrypt()
            if self._backlog and not self._is_blocked and self._upper is not None:
                self._upper.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing to set: "resume" always means that all is with the kernel."""

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait to be sent."""
        below = self._lower.get_write_buffer_size() if self._lower is not None else 0
        return below + sum(len(view) for view in self._backlog)

    def pause_reading(self) -> None:
        """Read no more for now."""
        if self._lower is not None:
            self._lower.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if self._lower is not None:
            self._lower.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport below knows."""
        return self._lower.get_extra_info(name, default) if self._lower is not None else default

    def is_closing(self) -> bool:
        """Return whether it is closed, or about to be."""
        return self._lower is None or self._lower.is_closing()

    def close(self) -> None:
        """Say goodbye and close. What was written before is still sent."""
        if self._lower is not None:
            self._say_goodbye()
            self._lower.close()

    def abort(self) -> None:
        """Close at once."""
        if self._lower is not None:
            self._lower.abort()

    # Inside.

    def _shake_hands(self) -> bool:
        if self._lower is None or self._lower.is_closing():
            return False
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except (ssl.SSLError, ssl.CertificateError) as error:
            self._flush()
            self._break(error)
            return False
        self._flush()
        self._upper = self._make()
        self._upper.connection_made(self)
        if not self.ready.done():
            self.ready.set_result(self._upper)
        return True

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
            self._flush()  # A handshake within the connection (TLS 1.2 knows them): ``data_received`` goes on.
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

    def _say_goodbye(self) -> None:
        if self._upper is not None and not self._backlog:
            with suppress(ssl.SSLError):  # The peer's own goodbye is not waited for.
                self._tls.unwrap()
            self._flush()

    def _break(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        if self._lower is not None:
            # Not at once: asyncio loses a connection twice that is aborted while it resumes writing.
            asyncio.get_running_loop().call_soon(self._lower.abort)
