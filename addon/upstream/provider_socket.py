"""A socket of the pool: bytes out and in, for one exchange after another.

A byte that comes while no answer is expected closes it.
"""

import asyncio
import os
import select
from collections.abc import Callable
from typing import Final, Protocol, cast

READ_BYTES: Final = 64 * 1024


class Exchange(Protocol):
    """One request and its answer, as the socket sees it."""

    def take(self, data: bytes) -> None:
        """Take bytes that the provider sent."""

    def take_end(self) -> None:
        """The provider ended what it sends, properly."""

    def take_loss(self, reason: str) -> None:
        """The socket is closed."""

    def take_room(self) -> None:
        """All that was written is with the kernel."""


class Link(asyncio.Protocol):
    """An open connection to a provider. ``on_lost(link)`` is called once its socket is closed."""

    def __init__(self, on_lost: Callable[["Link"], None]) -> None:
        self.opened_at_s = 0.0
        self.idle_since_s = 0.0
        self.is_closed = False
        """Nothing can be sent any more; the socket is closed, or about to be."""
        self.is_writing = False
        """Some of what was written is not with the kernel."""
        self._on_lost = on_lost
        self._exchange: Exchange | None = None
        self._transport: asyncio.Transport | None = None
        self._poller: select.poll | None = None
        self._is_paused = False

    @property
    def is_stale(self) -> bool:
        """Whether its provider closed it while it was idle, or sent what nobody asked for."""
        return self.is_closed or (self._poller is not None and bool(self._poller.poll(0)))

    def begin(self, exchange: Exchange) -> None:
        """Give what comes from now on to ``exchange``."""
        self._exchange = exchange

    def end(self) -> None:
        """Expect nothing from now on."""
        self._exchange = None

    def write(self, data: bytes) -> None:
        """Send ``data``."""
        if self._transport is not None:
            self._transport.write(data)

    def pause(self) -> None:
        """Read no more for now."""
        if not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close the socket, without waiting for anything to be sent."""
        self.is_closed = True
        self._poller = None
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the open ``transport``."""
        self._transport = transport = cast(asyncio.Transport, transport)
        # So that "resume" means that all is with the kernel.
        transport.set_write_buffer_limits(0)
        if hasattr(transport, "max_size"):
            transport.max_size = READ_BYTES  # asyncio's own reads 256 KiB at once.
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0 and hasattr(select, "poll"):
            self._poller = select.poll()
            self._poller.register(sock.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        """Give bytes to the exchange, or close where there is none."""
        if self._exchange is None:
            self.abort()
        else:
            self._exchange.take(data)

    def eof_received(self) -> None:
        """Take a proper end. The transport closes."""
        self.is_closed = True
        if self._exchange is not None:
            self._exchange.take_end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the socket."""
        self.is_closed = True
        self.is_writing = False
        self._transport = self._poller = None
        if self._exchange is not None:
            self._exchange.take_loss(_reason(exc))
        self._on_lost(self)

    def pause_writing(self) -> None:
        """Some of the request waits for the provider to take it."""
        self.is_writing = True

    def resume_writing(self) -> None:
        """All of the request is with the kernel."""
        self.is_writing = False
        if self._exchange is not None:
            self._exchange.take_room()


def _reason(exc: Exception | None) -> str:
    if isinstance(exc, OSError) and exc.errno:
        return f"the connection broke: {os.strerror(exc.errno).lower()}"
    return "the provider closed the connection" if exc is None else "the connection broke"
