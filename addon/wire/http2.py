"""``Http2Connection``: one client connection of HTTP/2, by prior knowledge or ALPN.

Frames are cut out and counted (``http2_frames``), then given to the h2 library one by one; heads are judged here and
not by the library, so that a malformed request costs its stream and not the connection. GOAWAY, in both directions,
passes the library by: after one it would send no more answers.
"""

import asyncio
import logging
from typing import Final

from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError

from addon.runtime.deadline import MovableDeadline
from addon.text.http2_heads import MalformedError, TooLargeError, parse_request_head
from addon.text.http_heads import Headers, RequestHead
from addon.wire.connection import ClientTransport, Connection, ServeStream, WireSettings
from addon.wire.http2_frames import (
    GOAWAY,
    BudgetError,
    Frame,
    FrameBudgets,
    FrameReader,
    FrameSizeError,
    PrefaceError,
)
from addon.wire.http2_library import MAX_STREAMS, bound_settings, build_h2
from addon.wire.http2_output import Http2Output
from addon.wire.http2_stream import Http2Stream
from addon.wire.stream import Stream
from policies.refusal import Refusal

log = logging.getLogger("tollgate.wire")

MAX_CALLS: Final = 2 * MAX_STREAMS
"""Streams with a task: those that are open, and those that the client reset while their call goes on."""
MAX_BUFFERED_BYTES: Final = 1_048_576
"""Toward a client that takes nothing: past the high-water mark come only heads and replies to control frames."""
NO_HEAD = RequestHead("GET", "/", "2", Headers())
"""Stands for the head of what could not be read."""


class Http2Connection(Connection):
    """One client connection of HTTP/2."""

    def __init__(
        self,
        transport: ClientTransport,
        serve_stream: ServeStream,
        settings: WireSettings,
        peer: tuple[str, int],
    ) -> None:
        super().__init__(transport, serve_stream, settings, peer)
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._budgets = FrameBudgets()
        self._h2 = build_h2()
        self._open: dict[int, Http2Stream] = {}
        self._new: list[Http2Stream] = []
        self._output = Http2Output(self._h2, transport, settings.date, self._budgets, self._open)
        self._is_over = False
        """The last byte was sent; what still comes is dropped."""
        self._is_end_announced = False
        self._is_end_said = False
        self._has_refused_by_drain = False
        self._has_had_request = False
        self._head_since_s: float | None = None
        self._idle_since_s = self._loop.time()
        self._deadline = MovableDeadline(self._expire)
        self._output.schedule_flush()
        self._set_deadline()

    # What the client sends.

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        try:
            for frame in self._reader.feed(data):
                self._take_frame(frame)
        except ProtocolError as fault:
            # The library has its GOAWAY ready.
            self._break_off(ErrorCodes(fault.error_code), str(fault), is_announced=True)
        except BudgetError as fault:
            self._break_off(ErrorCodes.ENHANCE_YOUR_CALM, str(fault))
        except FrameSizeError:
            self._break_off(ErrorCodes.FRAME_SIZE_ERROR, "frame size")
        except PrefaceError:
            self._break_off(ErrorCodes.PROTOCOL_ERROR, "preface")
        else:
            self._after_read()

    def _after_read(self) -> None:
        """Begin what came. A request that the same read took back has left before its call begins."""
        is_in_head = self._reader.is_in_head or self._budgets.is_in_block
        new, self._new = self._new, []
        if not is_in_head:
            self._head_since_s = None
        elif self._head_since_s is None or new:  # Where one came whole, what is left is of another.
            self._head_since_s = self._loop.time()
        for stream in new:
            self._begin_stream(stream)
        self._output.schedule_flush()
        self._set_deadline()
        if self.transport.buffered_bytes > MAX_BUFFERED_BYTES:
            self.transport.abort()

    def _take_frame(self, frame: Frame) -> None:
        is_in_block = self._budgets.is_in_block
        is_open = frame.stream_id in self._open
        is_late = not is_open and frame.stream_id <= self._h2.highest_inbound_stream_id
        self._budgets.admit(frame, self._loop.time(), is_open=is_open, is_late=is_late)
        if frame.type == GOAWAY and not is_in_block:
            # The client opens no more streams; those that are open go on.
            self._drain()
            return
        for event in self._h2.receive_data(frame.raw):
            self._take_event(event)

    def _take_event(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self._take_request(event)
        elif isinstance(event, DataReceived):
            self._take_data(event)
        elif isinstance(event, StreamEnded):
            if (stream := self._open.get(event.stream_id)) is not None:
                stream.end_request()
        elif isinstance(event, StreamReset):
            self._take_reset(event)
        elif isinstance(event, WindowUpdated):
            self._output.wake(event.stream_id)
        elif isinstance(event, RemoteSettingsChanged):
            bound_settings(self._h2)
            self._output.wake()

    def _take_request(self, event: RequestReceived) -> None:
        stream_id = event.stream_id
        # The library holds a body to its length by ending the connection; ``Http2Stream`` does it by stream.
        self._h2.streams[stream_id]._expected_content_length = None
        self._has_had_request = True
        if (
            self.is_draining
            or len(self._open) >= MAX_STREAMS
            or len(self._streams) + len(self._new) >= MAX_CALLS
        ):
            self._refuse_stream(stream_id)
            return
        try:
            stream = self._new_stream(stream_id, parse_request_head(event.headers))
        except TooLargeError as fault:
            self._refuse(event, Refusal("request_header_fields_too_large", str(fault)))
        except MalformedError as fault:
            self._refuse(event, Refusal("bad_request", str(fault)))
        else:
            self._new.append(stream)

    def _new_stream(self, stream_id: int, head: RequestHead) -> Http2Stream:
        stream = self._open[stream_id] = Http2Stream(self._output, stream_id, head, self.peer, self._release)
        return stream

    def _refuse(self, event: RequestReceived, refusal: Refusal) -> None:
        """Answer a request that makes no call."""
        self._budgets.resets.take(1, self._loop.time())
        stream = self._new_stream(event.stream_id, NO_HEAD)
        stream.request_has_ended = event.stream_ended is not None
        stream.respond_now(self.settings.refuse(refusal))

    def _take_data(self, event: DataReceived) -> None:
        size = event.flow_controlled_length
        stream = self._open.get(event.stream_id)
        if stream is not None:
            stream.feed(event.data, size)
        elif size:
            self._output.open_window(event.stream_id, size)

    def _take_reset(self, event: StreamReset) -> None:
        if not event.remote_reset:
            self._budgets.resets.take(1, self._loop.time())
        if (stream := self._open.pop(event.stream_id, None)) is not None:
            stream.leave()
            stream.close(None)
            self._released()

    # The end of a stream.

    def _release(self, stream: Http2Stream, reset_code: ErrorCodes | None) -> None:
        """Take ``stream`` off the connection, unless the client reset it."""
        if self._open.pop(stream.stream_id, None) is None:
            return
        if reset_code is not None:
            self._output.reset(stream.stream_id, reset_code)
        elif not stream.request_has_ended:
            self._output.reset(stream.stream_id, ErrorCodes.NO_ERROR)
            self._budgets.answered_early()
        self._released()

    def _released(self) -> None:
        self._idle_since_s = self._loop.time()
        if self.is_draining and not self._open:
            self._finish_drain()
        else:
            self._say_end()
            self._set_deadline()

    def _stream_ended(self, stream: Stream) -> None:
        if isinstance(stream, Http2Stream) and self._open.get(stream.stream_id) is stream:
            stream.close(ErrorCodes.CANCEL)

    def _fail(self, stream: Stream) -> None:
        if isinstance(stream, Http2Stream) and self._open.get(stream.stream_id) is stream:
            if stream.is_answered:
                stream.abort()
            else:
                stream.respond_now(self.settings.refuse(Refusal("internal_error", "")))

    # The end of the connection.

    def eof_received(self) -> None:
        self._leave_all()
        if not self._is_over:
            self._output.flush()
            self._is_over = True
        self.transport.close()

    def connection_lost(self) -> None:
        self._is_over = True
        self._leave_all(cut_off=self.transport.is_cut_off)
        self._deadline.close()
        self._output.close()

    # GOAWAY waits until no stream is open, or the client opens another: clients on the h2 library, httpx among them,
    # take no more of an answer once they were told to go.

    def announce_end(self) -> None:
        self._is_end_announced = True
        self._say_end()

    def _say_end(self) -> None:
        """Send a GOAWAY that refuses nothing yet, so that no request on its way is lost (RFC 9113, 6.8)."""
        if self._is_end_announced and not (
            self._is_end_said or self._open or self.is_draining or self._is_over
        ):
            self._is_end_said = True
            self._output.send_goaway(ErrorCodes.NO_ERROR, 2**31 - 1)

    def close_when_idle(self) -> None:
        self._is_end_announced = True
        self._drain()

    def _drain(self) -> None:
        self.is_draining = True
        if not self._open:
            self._finish_drain()

    def _finish_drain(self) -> None:
        if self._is_end_announced and not self._is_over:
            self._output.send_goaway(ErrorCodes.NO_ERROR)
        self._finish()

    def _refuse_stream(self, stream_id: int) -> None:
        self._budgets.resets.take(1, self._loop.time())
        if self.is_draining and not self._is_over and not self._has_refused_by_drain:
            self._has_refused_by_drain = True
            self._output.send_goaway(ErrorCodes.NO_ERROR, stream_id - 2)
        self._output.reset(stream_id, ErrorCodes.REFUSED_STREAM)

    def _break_off(self, code: ErrorCodes, reason: str, *, is_announced: bool = False) -> None:
        """Say GOAWAY and close: every stream leaves."""
        log.debug("an HTTP/2 connection is closed (%s): %s", code.name, reason)
        self._leave_all()
        if not is_announced:
            self._output.send_goaway(code)
        self._finish()

    def _finish(self) -> None:
        """Close once the client took what waits; until then drop what it sends, so that it is not reset away."""
        if not self._is_over:
            self._output.flush()
            self._is_over = True
            self.transport.write_eof()
            self._deadline.set(self.settings.linger_s)

    def _leave_all(self, *, cut_off: bool = False) -> None:
        streams = [*self._open.values(), *self._new]
        self._open.clear()
        self._new.clear()
        for stream in streams:
            stream.leave(cut_off=cut_off)

    # Time.

    def _set_deadline(self) -> None:
        """Set when the connection is closed if nothing happens until then."""
        settings = self.settings
        if self._is_over:
            return
        if self._head_since_s is not None:
            due_s = self._head_since_s + settings.head_timeout_s
        elif self._open:
            due_s = self._output.progress_at_s + settings.write_timeout_s
        elif self._has_had_request:
            due_s = self._idle_since_s + settings.idle_timeout_s
        else:
            due_s = self._idle_since_s + settings.head_timeout_s
        self._deadline.set(due_s - self._loop.time())

    def _expire(self) -> None:
        if self._is_over:
            self.transport.close()
        elif self._head_since_s is None and self._open:
            self._expire_write()
        else:
            self._break_off(ErrorCodes.NO_ERROR, "too slow, or idle")

    def _expire_write(self) -> None:
        """Cut a client off that took nothing of what streams wait to send."""
        waited_s = self._loop.time() - self._output.progress_at_s
        if self._output.has_blocked and waited_s >= self.settings.write_timeout_s:
            self._leave_all(cut_off=True)
            self.transport.abort()
        elif self._output.has_blocked:
            self._set_deadline()
        else:
            self._deadline.set(self.settings.write_timeout_s)
