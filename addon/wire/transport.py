"""``ClientSocket``: the socket of one client, read and written without mitmproxy's tasks and locks.

It takes a connection over from asyncio's streams. What arrives goes to ``receive``: to the HTTP connection itself, or
through mitmproxy's layers where these have to decrypt or to decide.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from addon.runtime.deadline import MovableDeadline
from addon.wire.stream import ClientLeft

READ_BYTES = 65_536

Encrypt = Callable[[bytes], bytes]
"""Returns what is to be sent for some bytes; nothing where the client ended TLS."""


class Receiver(Protocol):
    """Whom a ``ClientSocket`` tells what happens."""

    def data_received(self, data: bytes) -> None:
        """Take what was read, ``READ_BYTES`` at most."""

    def eof_received(self) -> None:
        """The client sends no more."""

    def connection_lost(self) -> None:
        """The socket is closed. Called once, and last."""


class ClientSocket(asyncio.BufferedProtocol):
    """A ``ClientTransport`` on an asyncio transport, and that one's protocol.

    ``buffer`` may be shared by all sockets of an event loop: what is read is copied out of it at once.
    """

    def __init__(
        self, transport: asyncio.Transport, receiver: Receiver, buffer: memoryview, write_timeout_s: float
    ) -> None:
        self._transport = transport
        self._receiver = receiver
        self._buffer = buffer
        self._write_timeout_s = write_timeout_s
        self._writable: asyncio.Future[None] | None = None
        self._stall: MovableDeadline | None = None
        self._behind_bytes = 0
        self._is_paused = False
        self._has_ended = False
        self._encrypt: Encrypt | None = None
        self._farewell: Callable[[], bytes] | None = None
        self.is_full = False
        self.is_lost = False
        self.is_cut_off = False
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take_over(self) -> None:
        """Become the transport's protocol."""
        self._transport.set_protocol(self)

    def use_tls(self, encrypt: Encrypt, farewell: Callable[[], bytes]) -> None:
        """Send through ``encrypt``, and what ``farewell`` returns before closing: TLS's close_notify."""
        self._encrypt, self._farewell = encrypt, farewell

    # asyncio's side.

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """As ``asyncio.BufferedProtocol``."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """As ``asyncio.BufferedProtocol``."""
        self._receiver.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """As ``asyncio.Protocol``, for an event loop that knows no other kind."""
        self._receiver.data_received(data)

    def eof_received(self) -> bool:
        """As ``asyncio.Protocol``: the transport is not closed for it."""
        self._receiver.eof_received()
        return True

    def pause_writing(self) -> None:
        """As ``asyncio.Protocol``."""
        self.is_full = True
        self._watch_stall()

    def resume_writing(self) -> None:
        """As ``asyncio.Protocol``."""
        self.is_full = False
        if self._stall and not self._has_ended:
            self._stall.clear()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """As ``asyncio.Protocol``."""
        self.is_lost = self._has_ended = True
        if self._stall:
            self._stall.close()
        self._wake()
        self._receiver.connection_lost()
        if not self.closed.done():
            self.closed.set_result(None)

    # The connection's side: ``ClientTransport``.

    @property
    def buffered_bytes(self) -> int:
        """As ``ClientTransport``."""
        return self._transport.get_write_buffer_size()

    @property
    def is_behind(self) -> bool:
        """As ``ClientTransport``."""
        return self._transport.get_write_buffer_size() > 0

    @property
    def is_closing(self) -> bool:
        """As ``ClientTransport``."""
        return self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """As ``ClientTransport``."""
        if self._has_ended or self._transport.is_closing():
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
        if self._has_ended or self._transport.is_closing():
            return
        self._say_farewell()
        self._has_ended = True
        try:
            self._transport.write_eof()
        except OSError:
            self._transport.abort()
        self._watch_stall()

    def close(self) -> None:
        """As ``ClientTransport``."""
        if self._transport.is_closing():
            return
        self._say_farewell()
        self._has_ended = True
        self._transport.close()
        if self.is_behind:
            self._watch_stall()
        self._wake()

    def abort(self) -> None:
        """As ``ClientTransport``."""
        self._has_ended = True
        self._transport.abort()
        self._wake()

    def _say_farewell(self) -> None:
        if self._farewell and not self._has_ended:
            self._transport.write(self._farewell())

    def _wake(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def _watch_stall(self) -> None:
        """Abort where the client takes nothing of what waits for it for ``write_timeout_s``."""
        if not self.is_behind or self.is_lost:
            return
        if self._stall is None:
            self._stall = MovableDeadline(self._check_stall)
        self._behind_bytes = self.buffered_bytes
        self._stall.set(self._write_timeout_s)

    def _check_stall(self) -> None:
        if self.buffered_bytes >= self._behind_bytes > 0:
            self.is_cut_off = True
            self.abort()
        else:
            self._watch_stall()
