"""What an HTTP/2 connection sends: frames made by the library, in one write a turn of the event loop."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from h2.connection import H2Connection
from h2.errors import ErrorCodes
from hyperframe.frame import GoAwayFrame

from addon.text.http2_heads import encode_response_fields
from addon.text.http_heads import Field
from addon.wire.connection import ClientTransport
from addon.wire.date import DateField
from addon.wire.http2_frames import SMALL_BYTES, FrameBudgets
from addon.wire.stream import ClientLeft

MAX_WAITING_BYTES: Final = 65_536
"""Sent within one turn of the loop before it is written."""
MAX_DATA_BYTES: Final = 16_384
"""Of one DATA frame that is sent: every client takes that much. Source: RFC 9113, 4.2."""
HEAD_BYTES: Final = 512
"""What a head is counted as."""


class Writer(Protocol):
    """A stream that may wait for room."""

    def wake_writer(self) -> None:
        """There may be room now."""


class Http2Output:
    """Sends for the streams of a connection. Nothing here waits; a stream that is not open sends nothing."""

    def __init__(
        self,
        h2: H2Connection,
        transport: ClientTransport,
        date: DateField,
        budgets: FrameBudgets,
        streams: Mapping[int, Writer],
    ) -> None:
        self._h2 = h2
        self._transport = transport
        self._date = date
        self._budgets = budgets
        self._streams = streams
        self._loop = asyncio.get_running_loop()
        self._blocked: dict[int, None] = {}
        self._waiting_bytes = 0
        self._flushing: asyncio.Handle | None = None
        self._draining: asyncio.Task[None] | None = None
        self._is_closed = False
        self.progress_at_s = self._loop.time()
        """When the client last took something that a stream waited to send, or nothing waited."""

    @property
    def is_full(self) -> bool:
        """Whether more than the high-water mark waits for the client."""
        return self._draining is not None

    @property
    def is_behind(self) -> bool:
        """Whether any byte waits for the client."""
        return self._transport.is_behind

    @property
    def has_blocked(self) -> bool:
        """Whether any stream waits for room."""
        return bool(self._blocked)

    def room(self, stream_id: int) -> int:
        """Return how many bytes of DATA may be sent now; none where zero or negative."""
        return self._h2.local_flow_control_window(stream_id) if stream_id in self._streams else 0

    def send_head(self, stream_id: int, status: int, fields: Iterable[Field], *, is_last: bool) -> None:
        """Send HEADERS, with ``date``. Raises ValueError where a field can't be sent."""
        if stream_id in self._streams:
            date = [self._date.now()] if status >= 200 else []
            self._h2.send_headers(
                stream_id, encode_response_fields(status, [*fields, *date]), end_stream=is_last
            )
            self._count(HEAD_BYTES)

    def send_data(self, stream_id: int, data: bytes, *, is_last: bool) -> None:
        """Send one DATA frame of at most ``MAX_DATA_BYTES`` and ``room``. An empty last one needs no room."""
        if stream_id not in self._streams:
            return
        if data:
            self._h2.send_data(stream_id, data, end_stream=is_last)
        else:
            self._h2.end_stream(stream_id)  # an empty ``send_data`` fails at a negative window, before h2 4.4
        # A window that is opened byte by byte pays for no further updates.
        if len(data) >= SMALL_BYTES or self.room(stream_id) > 0:
            self._budgets.data_sent()
        self._count(len(data))

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """Send RST_STREAM."""
        if not self._is_closed:
            self._h2.reset_stream(stream_id, code)
            self.schedule_flush()

    def open_window(self, stream_id: int, size: int) -> None:
        """Let the client send ``size`` more bytes, on this stream if it still takes any, and on the connection."""
        if not self._is_closed:
            self._h2.acknowledge_received_data(size, stream_id)
            self.schedule_flush()

    def block(self, stream_id: int) -> None:
        """Wake the stream when there may be room."""
        if not self._blocked:
            self.progress_at_s = self._loop.time()
        self._blocked[stream_id] = None

    def unblock(self, stream_id: int) -> None:
        """The stream waits no more."""
        self._blocked.pop(stream_id, None)

    def wake(self, stream_id: int = 0) -> None:
        """There may be room for a stream, for 0 for all: first for the one that has waited longest."""
        for one in [stream_id] if stream_id else self._blocked:
            if one in self._blocked and one in self._streams:
                self._streams[one].wake_writer()

    def schedule_flush(self) -> None:
        """Write at the end of this turn of the loop."""
        if self._flushing is None and not self._is_closed:
            self._flushing = self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send all that waits in one write, and watch whether the client takes it."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        self._waiting_bytes = 0
        if data := self._h2.data_to_send():
            self._transport.write(data)
        if self._draining is None and self._transport.is_full and not self._is_closed:
            self._draining = self._loop.create_task(self._drain())

    def send_goaway(self, code: ErrorCodes, last_stream_id: int | None = None) -> None:
        """Send GOAWAY behind all that waits: no stream after ``last_stream_id``, else after those that came, is served.

        The library would send nothing after one of its own.
        """
        self.flush()
        last = self._h2.highest_inbound_stream_id if last_stream_id is None else last_stream_id
        frame = GoAwayFrame(0, last_stream_id=last, error_code=code)
        self._transport.write(frame.serialize())

    def close(self) -> None:
        """Send nothing from here on."""
        self._is_closed = True
        for waiting in (self._flushing, self._draining):
            if waiting is not None:
                waiting.cancel()

    def _count(self, size: int) -> None:
        self.progress_at_s = self._loop.time()
        self._waiting_bytes += size
        if self._waiting_bytes >= MAX_WAITING_BYTES:
            self.flush()
        else:
            self.schedule_flush()

    async def _drain(self) -> None:
        try:
            await self._transport.drain()
        except ClientLeft:
            return
        finally:
            self._draining = None
        self.progress_at_s = self._loop.time()
        self.wake()
