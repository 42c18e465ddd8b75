"""``ClientSocket``: the socket of one client, read and written without mitmproxy's tasks and locks.

It takes over a connection from asyncio's streams. Its receiver passes the bytes to the HTTP connection, or through
mitmproxy's layers when they must decrypt, or decide on the protocol.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from addon.runtime.deadline import MovableDeadline
from addon.runtime.read_buffer import get_buffer_of
from addon.wire.stream import ClientLeft

Encrypt = Callable[[bytes], bytes]
"""Returns the TLS records of some bytes, or nothing when the client ended TLS."""


class Receiver(Protocol):
    """The object that handles what happens on a ``ClientSocket``."""

    def data_received(self, data: bytes) -> None:
        """Handle the bytes of one read, at most ``READ_BYTES``."""

    def eof_received(self) -> None:
        """Handle the end of the client's data."""

    def connection_lost(self) -> None:
        """Handle the end of the socket. Called once, and last."""


class ClientSocket(asyncio.BufferedProtocol):
    """A ``ClientTransport`` on an asyncio transport. It is also the protocol of that transport.

    All sockets of an event loop may share ``buffer``: the bytes of a read are copied out of it at once.
    """

    def __init__(
        self, transport: asyncio.Transport, receiver: Receiver, buffer: memoryview, write_timeout_s: float
    ) -> None:
        self._transport = transport
        self._receiver = receiver
        self.receive: Callable[[bytes], None] = receiver.data_received
        """Handles the bytes of each read. The receiver may replace it, to spare a call."""
        self._buffer = buffer
        self.get_buffer = get_buffer_of(buffer)  # type: ignore[method-assign, assignment]
        self._write_timeout_s = write_timeout_s
        self._writable: asyncio.Future[None] | None = None
        self._stall_deadline: MovableDeadline | None = None
        self._backlog_bytes = 0
        self._is_paused = False
        self._is_write_closed = False
        self._encrypt: Encrypt | None = None
        self._close_notify: Callable[[], bytes] | None = None
        self.is_full = False
        self.is_lost = False
        self.is_cut_off = False
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def attach(self) -> None:
        """Become the protocol of the asyncio transport."""
        self._transport.set_protocol(self)

    def use_tls(self, encrypt: Encrypt, close_notify: Callable[[], bytes]) -> None:
        """Encrypt with ``encrypt`` from now on. Send the result of ``close_notify`` before closing."""
        self._encrypt, self._close_notify = encrypt, close_notify

    # Called by asyncio.

    def buffer_updated(self, nbytes: int) -> None:
        """As ``asyncio.BufferedProtocol``."""
        self.receive(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """As ``asyncio.Protocol``, for event loops without ``BufferedProtocol``."""
        self.receive(data)

    def eof_received(self) -> bool:
        """As ``asyncio.Protocol``. The transport stays open."""
        self._receiver.eof_received()
        return True

    def pause_writing(self) -> None:
        """As ``asyncio.Protocol``."""
        self.is_full = True
        self._watch_stall()

    def resume_writing(self) -> None:
        """As ``asyncio.Protocol``."""
        self.is_full = False
        if self._stall_deadline and not self._is_write_closed:
            self._stall_deadline.clear()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """As ``asyncio.Protocol``."""
        self.is_lost = self._is_write_closed = True
        if self._stall_deadline:
            self._stall_deadline.close()
        self._wake()
        self._receiver.connection_lost()
        if not self.closed.done():
            self.closed.set_result(None)

    # Called by the connection: ``ClientTransport``.

    @property
    def buffered_bytes(self) -> int:
        """As ``ClientTransport``."""
        return self._transport.get_write_buffer_size()

    @property
    def has_backlog(self) -> bool:
        """As ``ClientTransport``."""
        return self._transport.get_write_buffer_size() > 0

    @property
    def is_closing(self) -> bool:
        """As ``ClientTransport``."""
        return self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """As ``ClientTransport``."""
        # A transport that failed by itself drops what is written, until it calls ``connection_lost``.
        if self._is_write_closed:
            return
        if self._encrypt is None:
            self._transport.write(data)
        elif records := self._encrypt(data):
            self._transport.write(records)
        else:
            self.abort()

    async def drain(self) -> None:
        """As ``ClientTransport``."""
        while self.is_full and not self._transport.is_closing():
            if self._writable is None:
                self._writable = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._writable)
        if self._transport.is_closing():
            raise ClientLeft

    def pause_reading(self) -> None:
        """As ``ClientTransport``."""
        if not self._is_paused:
            self._is_paused = True
            if not self._transport.is_closing():
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        """As ``ClientTransport``."""
        if self._is_paused:
            self._is_paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def write_eof(self) -> None:
        """As ``ClientTransport``."""
        if self._is_write_closed or self._transport.is_closing():
            return
        self._send_close_notify()
        self._is_write_closed = True
        try:
            self._transport.write_eof()
        except OSError:
            self._transport.abort()
        self._watch_stall()

    def close(self) -> None:
        """As ``ClientTransport``."""
        if self._transport.is_closing():
            return
        self._send_close_notify()
        self._is_write_closed = True
        self._transport.close()
        if self.has_backlog:
            self._watch_stall()
        self._wake()

    def abort(self) -> None:
        """As ``ClientTransport``."""
        self._is_write_closed = True
        self._transport.abort()
        self._wake()

    def _send_close_notify(self) -> None:
        if self._close_notify and not self._is_write_closed:
            self._transport.write(self._close_notify())

    def _wake(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def _watch_stall(self) -> None:
        """Abort when the client reads nothing for ``write_timeout_s`` while bytes wait for it."""
        if not self.has_backlog or self.is_lost:
            return
        if self._stall_deadline is None:
            self._stall_deadline = MovableDeadline(self._check_stall)
        self._backlog_bytes = self.buffered_bytes
        self._stall_deadline.set(self._write_timeout_s)

    def _check_stall(self) -> None:
        if self.buffered_bytes >= self._backlog_bytes > 0:
            self.is_cut_off = True
            self.abort()
        else:
            self._watch_stall()
