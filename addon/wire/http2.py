"""``Http2Connection``: one client connection of HTTP/2, by prior knowledge or ALPN.

Frames are cut out and counted (``http2_frames``), then given to the h2 library one by one; heads are judged here and
not by the library, so that a malformed request costs its stream and not the connection. GOAWAY, in both directions,
passes the library by: after one it would send no more answers.
"""

import asyncio
import logging
from email.utils import formatdate
from functools import lru_cache
from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
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
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from addon.deadline import is_late
from addon.text.http2_heads import MalformedError, encode_response_fields, parse_request_head
from addon.text.http_heads import Field, Headers, RequestHead
from addon.wire.connection import ClientTransport, Connection, ServeStream, WireSettings
from addon.wire.http2_frames import (
    GOAWAY,
    PREFACE,
    SMALL_BYTES,
    BudgetError,
    Frame,
    FrameBudgets,
    FrameReader,
    FrameSizeError,
    PrefaceError,
)
from addon.wire.http2_stream import Http2Stream
from addon.wire.stream import ClientLeft, Stream
from policies.refusal import Refusal

log = logging.getLogger("tollgate.wire")

MAX_STREAMS: Final = 100
"""Open at once, as advertised."""
MAX_CALLS: Final = 2 * MAX_STREAMS
"""Streams with a task: those that are open, and those that the client reset while their call goes on."""
CONNECTION_WINDOW_BYTES: Final = 1_048_576
"""Of all bodies of a connection together that no call has read. A stream's own window is RFC 9113's 65,535."""
HIGH_WATER_BYTES: Final = 65_536
MAX_BUFFERED_BYTES: Final = 1_048_576
"""Toward a client that takes nothing: past the high-water mark come only heads and replies to control frames."""
MAX_TABLE_BYTES: Final = 4_096
"""Of the compression of our heads, however much the client offers."""


@lru_cache(maxsize=4)
def _date(at_s: int) -> Field:
    """Return the field ``date`` of a second."""
    return "date", formatdate(at_s, usegmt=True)


class _H2(H2Connection):
    MAX_CLOSED_STREAMS = (
        1_000  # the library remembers 65,536 otherwise: 8 MB for a connection that lives long
    )


def _build_h2() -> H2Connection:
    """Return the server's side of a connection that has sent its settings and taken the client's preface."""
    config = H2Configuration(
        client_side=False,
        header_encoding=None,
        validate_inbound_headers=False,
        normalize_inbound_headers=False,
        validate_outbound_headers=False,
        normalize_outbound_headers=False,
    )
    h2 = _H2(config)
    h2.initiate_connection()
    h2.increment_flow_control_window(CONNECTION_WINDOW_BYTES - 65_535)
    # Past its own limit the library ends the connection; ours refuses the stream.
    settings = {SettingCodes(code): value for code, value in h2.local_settings.items()}
    settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 2 * MAX_STREAMS
    h2.local_settings = Settings(client=False, initial_values=settings)
    h2.receive_data(PREFACE)
    return h2


class Http2Connection(Connection):
    """One client connection of HTTP/2. It is what its streams send by, too."""

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
        self._h2 = _build_h2()
        self._open: dict[int, Http2Stream] = {}
        self._new: list[Http2Stream] = []
        self._blocked: dict[Http2Stream, None] = {}
        self._unflushed_bytes = 0
        self._flushing: asyncio.Handle | None = None
        self._draining: asyncio.Task[None] | None = None
        self._is_over = False
        """GOAWAY was sent as the last thing; what still comes is dropped."""
        self._has_had_request = False
        self._head_since_s: float | None = None
        self._since_s = self._loop.time()
        """The time of the last progress: a stream that ended, or bytes that the client took."""
        self._timer: asyncio.TimerHandle | None = None
        self._schedule_flush()
        self._watch()

    # What the client sends.

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        try:
            for frame in self._reader.feed(data):
                self._take_frame(frame)
        except ProtocolError as fault:
            self._fail_connection(ErrorCodes(fault.error_code), str(fault), is_announced=True)
        except BudgetError as fault:
            self._fail_connection(ErrorCodes.ENHANCE_YOUR_CALM, str(fault))
        except FrameSizeError:
            self._fail_connection(ErrorCodes.FRAME_SIZE_ERROR, "frame size")
        except PrefaceError:
            self._fail_connection(ErrorCodes.PROTOCOL_ERROR, "preface")
        else:
            self._after_read()

    def _after_read(self) -> None:
        """Begin what came, unless the same read took it back."""
        is_in_head = self._reader.is_in_head or self._budgets.is_in_block
        if not is_in_head:
            self._head_since_s = None
        elif self._head_since_s is None:
            self._head_since_s = self._loop.time()
        new, self._new = self._new, []
        for stream in new:
            if not stream.has_left:
                self._begin_stream(stream)
        self._schedule_flush()
        self._watch()
        if self.transport.buffered_bytes > MAX_BUFFERED_BYTES:
            self.transport.abort()

    def _take_frame(self, frame: Frame) -> None:
        now_s = self._loop.time()
        is_in_block = self._budgets.is_in_block
        self._budgets.admit(frame, now_s, is_open=frame.stream_id in self._open)
        if frame.type == GOAWAY and not is_in_block:
            # The client opens no more streams; those that are open go on.
            self._close_when_idle()
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
            self._wake_blocked(event.stream_id)
        elif isinstance(event, RemoteSettingsChanged):
            self._bound_settings()
            self._wake_blocked()

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
            self._budgets.resets.take(1, self._loop.time())
            self._h2.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        try:
            head = parse_request_head(event.headers)
            stream = self._open[stream_id] = Http2Stream(self, stream_id, head, self.peer)
        except MalformedError as fault:
            self._refuse(
                stream_id, Refusal("bad_request", str(fault)), is_ended=event.stream_ended is not None
            )
        else:
            self._new.append(stream)

    def _refuse(self, stream_id: int, refusal: Refusal, *, is_ended: bool) -> None:
        """Answer a request that makes no call."""
        stream = Http2Stream(self, stream_id, RequestHead("GET", "/", "2", Headers()), self.peer)
        stream.request_has_ended = is_ended
        self._open[stream_id] = stream
        self._budgets.resets.take(1, self._loop.time())
        stream.respond_now(self.settings.refuse(refusal))

    def _take_data(self, event: DataReceived) -> None:
        size = event.flow_controlled_length
        stream = self._open.get(event.stream_id)
        if stream is not None:
            stream.feed(event.data, size)
        elif size:
            self.taken(event.stream_id, size)

    def _take_reset(self, event: StreamReset) -> None:
        if not event.remote_reset:
            self._budgets.resets.take(1, self._loop.time())
        if (stream := self._open.pop(event.stream_id, None)) is not None:
            stream.leave()
            stream.close(None)
            self._released()

    def _bound_settings(self) -> None:
        """Keep the client's settings from growing what we hold."""
        for code in [code for code in self._h2.remote_settings if not isinstance(code, SettingCodes)]:
            del self._h2.remote_settings[code]
        if self._h2.encoder.header_table_size > MAX_TABLE_BYTES:
            self._h2.encoder.header_table_size = MAX_TABLE_BYTES

    def eof_received(self) -> None:
        self._leave_all()
        self._close()

    def connection_lost(self) -> None:
        self._is_over = True
        self._leave_all()
        super().connection_lost()
        for waiting in (self._timer, self._flushing, self._draining):
            if waiting is not None:
                waiting.cancel()

    def _leave_all(self) -> None:
        self._new.clear()
        streams, self._open = self._open, {}
        for stream in streams.values():
            stream.leave()

    # What streams send.

    @property
    def is_full(self) -> bool:
        return self._draining is not None

    @property
    def transport_is_behind(self) -> bool:
        return self.transport.is_behind

    def room(self, stream_id: int) -> int:
        return 0 if stream_id not in self._open else self._h2.local_flow_control_window(stream_id)

    def send_head(self, stream_id: int, status: int, fields: list[Field], *, is_last: bool) -> None:
        if stream_id in self._open:
            if status >= 200:
                fields = [*fields, _date(int(self.settings.clock.now().timestamp()))]
            self._h2.send_headers(stream_id, encode_response_fields(status, fields), end_stream=is_last)
            self._sent(512)

    def send_data(self, stream_id: int, data: bytes, *, is_last: bool) -> None:
        if stream_id in self._open:
            if data:
                self._h2.send_data(stream_id, data, end_stream=is_last)
            else:
                self._h2.end_stream(stream_id)  # a window that is negative would stop an empty ``send_data``
            # A window that is opened byte by byte pays for no further updates.
            if len(data) >= SMALL_BYTES or self.room(stream_id) > 0:
                self._budgets.data_sent()
            self._sent(len(data))

    def taken(self, stream_id: int, size: int) -> None:
        if not self._is_over:
            self._h2.acknowledge_received_data(size, stream_id)
            self._schedule_flush()

    def block(self, stream: Http2Stream) -> None:
        if not self._blocked:
            self._since_s = self._loop.time()
        self._blocked[stream] = None
        self._watch()

    def unblock(self, stream: Http2Stream) -> None:
        self._blocked.pop(stream, None)

    def release(self, stream: Http2Stream, reset_code: int | None) -> None:
        if self._open.pop(stream.stream_id, None) is not None:
            if reset_code is not None:
                self._h2.reset_stream(stream.stream_id, reset_code)
            elif not stream.request_has_ended:
                self._h2.reset_stream(stream.stream_id, ErrorCodes.NO_ERROR)
            self._released()

    def _released(self) -> None:
        self._since_s = self._loop.time()
        self._schedule_flush()
        if self.is_draining and not self._open:
            self._finish()
        else:
            self._watch()

    def _sent(self, size: int) -> None:
        self._since_s = self._loop.time()
        self._unflushed_bytes += size
        if self._unflushed_bytes >= HIGH_WATER_BYTES:
            self._flush()
        else:
            self._schedule_flush()

    def _schedule_flush(self) -> None:
        if self._flushing is None and not self._is_over:
            self._flushing = self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send all that waits in one write, and watch whether the client takes it."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        self._unflushed_bytes = 0
        if data := self._h2.data_to_send():
            self.transport.write(data)
        if self._draining is None and self.transport.buffered_bytes > HIGH_WATER_BYTES:
            self._draining = self._loop.create_task(self._drain())

    async def _drain(self) -> None:
        try:
            await self.transport.drain()
        except ClientLeft:
            return
        finally:
            self._draining = None
        self._since_s = self._loop.time()
        self._wake_blocked()

    def _wake_blocked(self, stream_id: int = 0) -> None:
        for stream in self._blocked:
            if stream_id in (0, stream.stream_id):
                stream.wake_writer()

    # The end.

    def _stream_ended(self, stream: Stream) -> None:
        if isinstance(stream, Http2Stream) and self._open.get(stream.stream_id) is stream:
            stream.close(ErrorCodes.CANCEL)

    def _fail(self, stream: Stream) -> None:
        if isinstance(stream, Http2Stream) and self._open.get(stream.stream_id) is stream:
            if stream.is_answered:
                stream.abort()
            else:
                stream.respond_now(self.settings.refuse(Refusal("internal_error", "The call failed.")))

    def close_when_idle(self) -> None:
        if not self.is_draining and not self._is_over:
            self._send_goaway(ErrorCodes.NO_ERROR)
            self._close_when_idle()

    def _close_when_idle(self) -> None:
        self.is_draining = True
        if not self._open:
            self._finish()

    def _send_goaway(self, code: ErrorCodes) -> None:
        self._flush()
        frame = GoAwayFrame(0, last_stream_id=self._h2.highest_inbound_stream_id, error_code=code)
        self.transport.write(frame.serialize())

    def _fail_connection(self, code: ErrorCodes, reason: str, *, is_announced: bool = False) -> None:
        """Say GOAWAY, unless the library did, and close: the client broke the protocol or a budget."""
        log.debug("an HTTP/2 connection is closed (%s): %s", code.name, reason)
        self._leave_all()
        if not is_announced:
            self._send_goaway(code)
        self._finish()

    def _finish(self) -> None:
        """Close once the client took what waits; until then drop what it sends, so that it is not reset away."""
        if not self._is_over:
            self._flush()
            self._is_over = True
            self.transport.write_eof()
            self._rearm(self._loop.time() + self.settings.linger_s)

    def _close(self) -> None:
        if not self._is_over:
            self._flush()
            self._is_over = True
        self.transport.close()

    # Time.

    def _deadline_s(self) -> float | None:
        """Return when the connection is closed if nothing happens until then."""
        settings = self.settings
        if self._is_over:
            return None
        if self._head_since_s is not None:
            return self._head_since_s + settings.head_timeout_s
        if self._blocked:
            return self._since_s + settings.write_timeout_s
        if self._open:
            return None
        return self._since_s + (settings.idle_timeout_s if self._has_had_request else settings.head_timeout_s)

    def _watch(self) -> None:
        """Have the one timer fire when something is due, or earlier: then it looks again."""
        due_s = self._deadline_s()
        if due_s is not None and (self._timer is None or self._timer.when() > due_s):
            self._rearm(due_s)

    def _rearm(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due_s, self._time_out)

    def _time_out(self) -> None:
        timer, self._timer = self._timer, None
        now_s = self._loop.time()
        if self._is_over:
            self.transport.close()
            return
        due_s = self._deadline_s()
        if due_s is None or due_s > now_s:
            self._watch()
        elif timer is not None and is_late(timer.when(), now_s):
            # This process was stopped: what the client sent meanwhile may lie in the socket.
            self._rearm(now_s + 1)
        elif self._blocked:
            self.transport.abort()
        else:
            self._fail_connection(ErrorCodes.NO_ERROR, "idle")
