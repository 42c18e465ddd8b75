"""The output of an HTTP/2 connection: frames of the h2 library, in one write for each turn of the event loop."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from h2.connection import H2Connection
from h2.errors import ErrorCodes
from hyperframe.frame import GoAwayFrame

from addon.text.http2_heads import encode_response_fields
from addon.text.http_heads import Field
from addon.wire.connection import ClientTransport, DateField
from addon.wire.http2_frames import SMALL_FRAME_BYTES, FrameBudgets
from addon.wire.stream import ClientLeft

MAX_WAITING_BYTES: Final = 65_536
"""More than this is written before the turn of the loop ends."""
MAX_DATA_BYTES: Final = 16_384
"""The bound of one DATA frame that we send. Every client accepts it. Source: RFC 9113, 4.2."""
HEAD_BYTES: Final = 512
"""The size that a head is counted as."""


class Writer(Protocol):
    """A stream that may wait for room."""

    def wake_writer(self) -> None:
        """Try again: there may be room now."""


class Http2Output:
    """The output of all streams of a connection. No method waits. A stream that is not open sends nothing."""

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
        """When the client last read something that a stream waited to send, or when nothing waited."""

    @property
    def is_full(self) -> bool:
        """Whether more than the high-water mark waits for the client."""
        return self._draining is not None

    @property
    def has_backlog(self) -> bool:
        """Whether any byte waits for the client."""
        return self._transport.has_backlog

    @property
    def has_blocked(self) -> bool:
        """Whether any stream waits for room."""
        return bool(self._blocked)

    def room(self, stream_id: int) -> int:
        """Return how many bytes of DATA may be sent now. Zero and negative both mean none."""
        return self._h2.local_flow_control_window(stream_id) if stream_id in self._streams else 0

    def send_head(self, stream_id: int, status: int, fields: Iterable[Field], *, is_last: bool) -> None:
        """Send HEADERS, with ``date``. Raise ValueError for a field that can't be sent."""
        if stream_id in self._streams:
            date = [self._date.now()] if status >= 200 else []
            encoded = encode_response_fields(status, [*fields, *date])
            self._h2.send_headers(stream_id, encoded, end_stream=is_last)
            self._count(HEAD_BYTES)

    def send_data(self, stream_id: int, data: bytes, *, is_last: bool) -> None:
        """Send one DATA frame of at most ``MAX_DATA_BYTES`` and ``room``. An empty last one needs no room."""
        if stream_id not in self._streams:
            return
        if data:
            self._h2.send_data(stream_id, data, end_stream=is_last)
        else:
            self._h2.end_stream(
                stream_id
            )  # before h2 4.4, an empty ``send_data`` fails with a negative window
        # A client that opens its window byte by byte earns no further updates.
        if len(data) >= SMALL_FRAME_BYTES or self.room(stream_id) > 0:
            self._budgets.credit_sent_data()
        self._count(len(data))

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """Send RST_STREAM."""
        if not self._is_closed:
            self._h2.reset_stream(stream_id, code)
            self.schedule_flush()

    def open_window(self, stream_id: int, size: int) -> None:
        """Let the client send ``size`` more bytes on the connection, and on this stream if that is still open."""
        if not self._is_closed:
            self._h2.acknowledge_received_data(size, stream_id)
            self.schedule_flush()

    def block(self, stream_id: int) -> None:
        """Wake the stream as soon as there may be room."""
        if not self._blocked:
            self.progress_at_s = self._loop.time()
        self._blocked[stream_id] = None

    def unblock(self, stream_id: int) -> None:
        """Stop waking the stream."""
        self._blocked.pop(stream_id, None)

    def wake(self, stream_id: int = 0) -> None:
        """Wake a stream that waits for room, or with 0 all of them. The one that has waited longest is first."""
        for one in [stream_id] if stream_id else self._blocked:
            if one in self._blocked and one in self._streams:
                self._streams[one].wake_writer()

    def schedule_flush(self) -> None:
        """Write at the end of this turn of the loop."""
        if self._flushing is None and not self._is_closed:
            self._flushing = self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send all that waits in one write, and watch whether the client reads it."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        self._waiting_bytes = 0
        if data := self._h2.data_to_send():
            self._transport.write(data)
        if self._draining is None and self._transport.is_full and not self._is_closed:
            self._draining = self._loop.create_task(self._drain())

    def send_goaway(self, code: ErrorCodes, last_stream_id: int | None = None) -> None:
        """Send GOAWAY after all that waits. No stream after ``last_stream_id`` is served; default: the newest one.

        The library is not asked: it would send nothing after its own GOAWAY.
        """
        self.flush()
        last = self._h2.highest_inbound_stream_id if last_stream_id is None else last_stream_id
        frame = GoAwayFrame(0, last_stream_id=last, error_code=code)
        self._transport.write(frame.serialize())

    def close(self) -> None:
        """Send nothing from now on."""
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


class GoAways:
    """The GOAWAY frames of a connection that ends without an error, each sent at most once."""

    def __init__(self, output: Http2Output) -> None:
        self._output = output
        self.is_wanted = False
        """Whether the gateway, and not only the client, ends the connection."""
        self._is_first_sent = False
        self._is_refusing_sent = False

    def send_first(self) -> None:
        """Send a GOAWAY that refuses nothing yet, so that no request on its way is lost. Source: RFC 9113, 6.8."""
        if self.is_wanted and not self._is_first_sent:
            self._is_first_sent = True
            self._output.send_goaway(ErrorCodes.NO_ERROR, 2**31 - 1)

    def send_refusing(self, stream_id: int) -> None:
        """Send a GOAWAY that refuses ``stream_id`` and later streams."""
        if not self._is_refusing_sent:
            self._is_refusing_sent = True
            self._output.send_goaway(ErrorCodes.NO_ERROR, stream_id - 2)

    def send_last(self) -> None:
        """Send the GOAWAY of a connection that closes now."""
        if self.is_wanted:
            self._output.send_goaway(ErrorCodes.NO_ERROR)
