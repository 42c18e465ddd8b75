"""``ProviderSocket``: the socket of one connection to a provider, for one request after another.

A byte that arrives while no answer is expected closes it.
"""

import asyncio
import os
import select
from collections.abc import Callable
from typing import Protocol, cast

from addon.runtime.deadline import MovableDeadline
from addon.runtime.read_buffer import get_buffer_of
from addon.settings.egress_proxy import EgressProxy
from addon.upstream.origin import Origin


class Receiver(Protocol):
    """One request and its answer: the object that handles what happens on a ``ProviderSocket``."""

    def data_received(self, data: bytes) -> None:
        """Handle bytes that the provider sent."""

    def eof_received(self) -> None:
        """Handle the proper end of the provider's data."""

    def connection_lost(self, reason: str) -> None:
        """Handle the end of the socket."""

    def all_written(self) -> None:
        """Handle that the kernel has all that was written."""

    def deadline_expired(self) -> None:
        """Handle that the socket's ``deadline`` is over."""

    def window_ended(self) -> None:
        """Handle that the socket's ``window`` is over, and that it was open until then."""


class _Window(MovableDeadline):
    """A deadline that is never postponed.

    If this process was late, an end of the connection that came in time was read before: reads go before timers.
    """

    LATE_LOOKS = 0


class ProviderSocket(asyncio.BufferedProtocol):
    """An open connection to ``origin``. It calls ``on_closed`` with itself when its socket is closed."""

    def __init__(
        self,
        on_closed: Callable[["ProviderSocket"], None],
        buffer: memoryview,
        origin: Origin,
        proxy: EgressProxy | None = None,
    ) -> None:
        self._buffer = buffer
        self.get_buffer = get_buffer_of(buffer)  # type: ignore[method-assign, assignment]
        self.origin = origin
        self.proxy = proxy
        self.opened_at_s = 0.0
        self.idle_since_s = self.idle_until_s = 0.0
        self.keep_alive_s: float | None = None
        """After how much idle time its provider closes it, as it says. None: it says nothing."""
        self.round_trip_s: float | None = None
        """The time to the provider and back, None where it is not known."""
        self.is_closed = False
        """Nothing more can be sent: the socket is closed, or closes now."""
        self.is_writing = False
        """The kernel does not have all that was written."""
        self.deadline = MovableDeadline(self._expire)
        """One after another, for all requests of the connection. To set it to a later time costs no timer."""
        self.window = _Window(self._end_window)
        """The time after the first write of a request in which it may be lost unread."""
        self._on_closed = on_closed
        self.receiver: Receiver | None = None
        """Gets everything that arrives. With None, nothing may arrive."""
        self._transport: asyncio.Transport | None = None
        self._poller: select.poll | None = None
        self._is_paused = False

    @property
    def is_stale(self) -> bool:
        """Whether the provider closed it while it was idle, or sent bytes without a request."""
        return self.is_closed or (self._poller is not None and bool(self._poller.poll(0)))

    def write(self, data: bytes) -> None:
        """Send ``data``."""
        if self._transport is not None:
            self._transport.write(data)

    def pause(self) -> None:
        """Stop reading."""
        if not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close the socket at once, without sending the waiting bytes."""
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the open ``transport``."""
        self._transport = transport = cast(asyncio.Transport, transport)
        # With a limit of 0, ``resume_writing`` means that the kernel has everything.
        transport.set_write_buffer_limits(0)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0 and hasattr(select, "poll"):
            self._poller = select.poll()
            self._poller.register(sock.fileno(), select.POLLIN)

    def buffer_updated(self, nbytes: int) -> None:
        """Pass the bytes of a read to the receiver, or close if there is none."""
        if self.receiver is None:
            self.abort()
        else:
            self.receiver.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """As ``buffer_updated``, with bytes that TLS decrypted."""
        if self.receiver is None:
            self.abort()
        else:
            self.receiver.data_received(data)

    def eof_received(self) -> None:
        """Pass on a proper end. The transport closes."""
        self.is_closed = True
        if self.receiver is not None:
            self.receiver.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the socket."""
        self.is_closed = True
        self._transport = self._poller = None
        self.deadline.close()
        self.window.close()
        if self.receiver is not None:
            self.receiver.connection_lost(_reason(exc))
        self._on_closed(self)

    def pause_writing(self) -> None:
        """Note that some of the request waits until the provider reads."""
        self.is_writing = True

    def resume_writing(self) -> None:
        """Note that the kernel has all of the request."""
        self.is_writing = False
        if self.receiver is not None:
            self.receiver.all_written()

    def _expire(self) -> None:
        if self.receiver is not None:
            self.receiver.deadline_expired()

    def _end_window(self) -> None:
        # Its end may have been read in this turn, to be reported in the next one.
        is_closing = self.is_closed or self._transport is None or self._transport.is_closing()
        if self.receiver is not None and not is_closing:
            self.receiver.window_ended()


def _reason(exc: Exception | None) -> str:
    if isinstance(exc, OSError) and exc.errno:
        return f"the connection broke: {os.strerror(exc.errno).lower()}"
    return "the provider closed the connection" if exc is None else "the connection broke"
