"""One end of a simulated connection: a transport that behaves like asyncio's over a socket."""

import asyncio
import contextvars
import logging
import socket
import struct
from asyncio.transports import _FlowControlMixin
from collections.abc import Callable
from typing import Any

from rig.simulation.pipe import Pipe

log = logging.getLogger("asyncio")

_MOST_READ_BYTES = 256 * 1024
_WARN_AFTER_WRITES = 5


class SimulatedSocket:
    """The socket of a simulated connection. Its kernel knows the round trip."""

    def __init__(self, round_trip_s: float) -> None:
        self._round_trip_s = round_trip_s

    def fileno(self) -> int:
        """Return no descriptor: nothing can be polled."""
        return -1

    def setsockopt(self, *option: object) -> None:
        """Ignore an option."""

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        """Return ``struct tcp_info`` up to ``tcpi_min_rtt``, the only number that it has."""
        assert (level, option) == (socket.IPPROTO_TCP, socket.TCP_INFO)
        return struct.pack("=148xI", round(self._round_trip_s * 1e6))[:size]


class SimulatedTransport(_FlowControlMixin, asyncio.Transport):
    """A transport that reads from ``inbound`` and writes to ``outbound``.

    It calls ``on_closed`` after ``connection_lost`` of its protocol.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        inbound: Pipe,
        outbound: Pipe,
        names: dict[str, Any],
        on_closed: Callable[["SimulatedTransport"], None],
    ) -> None:
        super().__init__(names, loop)
        self._inbound, self._outbound, self._on_closed = inbound, outbound, on_closed
        inbound.receiver = outbound.sender = self
        self._buffer = bytearray()
        self._is_begun = self._is_paused = self._is_eof_sent = self._is_eof_seen = False
        self._closing = self._is_resetting = False
        self._conn_lost = 0
        self._error: OSError | None = None
        self._protocol: Any = None
        self.context = contextvars.copy_context()
        """The context in which the protocol is called: of the task that connected, or of the server."""

    def start(self, protocol: asyncio.BaseProtocol, waiter: asyncio.Future[None] | None = None) -> None:
        """Call ``connection_made`` of the protocol, then read."""
        self._protocol = protocol
        self.context = contextvars.copy_context()
        self._loop.call_soon(protocol.connection_made, self, context=self.context)
        self._loop.call_soon(self._begin, waiter, context=self.context)

    def _begin(self, waiter: asyncio.Future[None] | None) -> None:
        self._is_begun = True
        if waiter and not waiter.done():
            waiter.set_result(None)
        self._read()

    # Called by programs.

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """See asyncio.BaseTransport."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """See asyncio.BaseTransport."""
        return self._protocol

    def is_closing(self) -> bool:
        """See asyncio.BaseTransport."""
        return self._closing

    def is_reading(self) -> bool:
        """See asyncio.ReadTransport."""
        return not self._closing and not self._is_paused

    def pause_reading(self) -> None:
        """See asyncio.ReadTransport."""
        if self.is_reading():
            self._is_paused = True

    def resume_reading(self) -> None:
        """See asyncio.ReadTransport."""
        if not self._closing and self._is_paused:
            self._is_paused = False
            self._loop.call_soon(self._read, context=self.context)

    def get_write_buffer_size(self) -> int:
        """See asyncio.WriteTransport."""
        return len(self._buffer)

    def can_write_eof(self) -> bool:
        """See asyncio.WriteTransport."""
        return True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See asyncio.WriteTransport."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
        if self._is_eof_sent:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not data:
            return
        if self._conn_lost:
            if self._conn_lost >= _WARN_AFTER_WRITES:
                log.warning("socket.send() raised exception.")
            self._conn_lost += 1
            return
        if not self._buffer:
            if self._error:
                self._fail(self._error)
                return
            data = data[self._outbound.send(data) :]
        if data:
            self._buffer += data
            self._maybe_pause_protocol()

    def write_eof(self) -> None:
        """See asyncio.WriteTransport."""
        if not self._closing and not self._is_eof_sent:
            self._is_eof_sent = True
            if not self._buffer:
                self._outbound.end()

    def close(self) -> None:
        """See asyncio.BaseTransport."""
        if not self._closing:
            self._closing = True
            if not self._buffer:
                self._conn_lost += 1
                self._loop.call_soon(self._report_loss, None, context=self.context)

    def abort(self) -> None:
        """See asyncio.WriteTransport."""
        self._force_close(None)

    def reset(self) -> None:
        """Abort with a reset, like a socket with a linger time of 0."""
        self._is_resetting = True
        self._force_close(None)

    # Called by pipes.

    def arrived(self) -> None:
        """See ``End.arrived``."""
        self.context.run(self._read)

    def has_room(self) -> None:
        """See ``End.has_room``."""
        self.context.run(self._continue_writing)

    def was_reset(self, error: OSError) -> None:
        """See ``End.was_reset``. A program that neither reads nor writes does not notice it."""
        self._error = error
        self.context.run(self._fail if self._buffer else self._read_before_error, error)

    def kill(self) -> None:
        """End like the transport of a killed process: no callback runs, and the kernel closes the socket."""
        self._closing, self._is_begun = True, False
        self._conn_lost += 1
        self._buffer.clear()
        self._close_socket()

    # Internal.

    def _read_before_error(self, error: OSError) -> None:
        self._read()

    def _continue_writing(self) -> None:
        if self._conn_lost or not self._buffer:
            return
        del self._buffer[: self._outbound.send(self._buffer)]
        self._maybe_resume_protocol()
        if not self._buffer:
            if self._closing:
                self._conn_lost += 1
                self._report_loss(None)
            elif self._is_eof_sent:
                self._outbound.end()

    def _read(self) -> None:
        if not self._is_begun or not self.is_reading():
            return
        data = self._take()
        if data:
            # One read in each turn, like a socket.
            self._loop.call_soon(self._read, context=self.context)
            self._deliver(data)
        elif self._error:
            self._fail(self._error)
        elif self._inbound.has_ended and not self._is_eof_seen:
            self._is_eof_seen = True
            self._end_reading()

    def _take(self) -> bytes:
        return self._inbound.take(_MOST_READ_BYTES)

    def _deliver(self, data: bytes) -> None:
        try:
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                self._fill(data)
            else:
                self._protocol.data_received(data)
        except Exception as error:  # noqa: BLE001  (as asyncio does)
            self._fail(error, "Fatal error: protocol.data_received() call failed.")

    def _fill(self, data: bytes) -> None:
        while data:
            buffer = self._protocol.get_buffer(-1)
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            self._protocol.buffer_updated(size)
            data = data[size:]

    def _end_reading(self) -> None:
        try:
            stays_open = self._protocol.eof_received()
        except Exception as error:  # noqa: BLE001  (as asyncio does)
            self._fail(error, "Fatal error: protocol.eof_received() call failed.")
            return
        if not stays_open:
            self.close()

    def _fail(self, error: Exception, message: str = "Fatal error on transport") -> None:
        if not isinstance(error, OSError):
            self._loop.call_exception_handler(
                {"message": message, "exception": error, "transport": self, "protocol": self._protocol}
            )
        self._force_close(error)

    def _force_close(self, error: Exception | None) -> None:
        if not self._conn_lost:
            self._buffer.clear()
            self._closing = True
            self._conn_lost += 1
            self._loop.call_soon(self._report_loss, error, context=self.context)

    def _report_loss(self, error: Exception | None) -> None:
        try:
            if self._protocol is not None:
                self._protocol.connection_lost(error)
        finally:
            self._close_socket()

    def _close_socket(self) -> None:
        """Close the socket like the kernel: unread bytes cause a reset."""
        if self._is_resetting or self._inbound.has_unread:
            self._outbound.reset()
        elif not self._error:
            self._outbound.end()
        self._inbound.close()
        self._on_closed(self)
