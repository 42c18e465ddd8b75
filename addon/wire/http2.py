"""``Http2Connection``: one client connection of HTTP/2, by prior knowledge or ALPN.

``http2_frames`` cuts out and counts the frames. The h2 library then gets them one by one. Request heads are judged here
and not by the library, so a malformed request costs its stream and not the connection. GOAWAY bypasses the library in
both directions: after one, the library would send no more answers.
"""

import asyncio
import logging
from typing import Final

from h2 import events
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

from addon.text.http2_heads import HeadTooLargeError, MalformedError, parse_request_head
from addon.text.http_heads import RequestHead
from addon.wire.connection import ClientTransport, Connection, ServeStream, WireSettings, empty_head
from addon.wire.http2_deadline import Http2Deadline
from addon.wire.http2_frames import GOAWAY, Frame, FrameBudgets, FrameError, FrameReader
from addon.wire.http2_library import MAX_CALLS, MAX_STREAMS, bound_settings, build_h2, used_window_bytes
from addon.wire.http2_output import GoAways, Http2Output
from addon.wire.http2_stream import Http2Stream
from addon.wire.stream import Stream
from policies.refusal import Refusal

log = logging.getLogger("tollgate.wire")

MAX_BUFFERED_BYTES: Final = 1_048_576
"""Toward a client that reads nothing. Past the high-water mark, only heads and replies to control frames are sent."""


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
        self._unstarted: list[Http2Stream] = []
        self._output = Http2Output(self._h2, transport, settings.date, self._budgets, self._open)
        self._goaways = GoAways(self._output)
        self._deadline = Http2Deadline(settings, self._expire)
        self._is_retiring = False
        self._is_finished = False
        """The last byte was sent. Everything that still arrives is dropped."""
        self._output.schedule_flush()
        self._set_deadline()

    # Input.

    def data_received(self, data: bytes) -> None:
        if self._is_finished:
            return
        try:
            for frame in self._reader.feed(data):
                self._handle_frame(frame)
        except ProtocolError as error:
            # The library has its GOAWAY ready.
            self._close_with_error(ErrorCodes(error.error_code), str(error), is_announced=True)
        except FrameError as error:
            self._close_with_error(error.code, str(error))
        else:
            self._after_read()

    def _after_read(self) -> None:
        """Start the new streams. A request that the same read reset is already gone before its call starts."""
        is_in_head = self._reader.is_in_head or self._budgets.is_in_block
        new, self._unstarted = self._unstarted, []
        self._deadline.note_head(is_in_head=is_in_head, has_new=bool(new))
        for stream in new:
            self._start_stream(stream)
        self._output.schedule_flush()
        self._set_deadline()
        if self.transport.buffered_bytes > MAX_BUFFERED_BYTES:
            self.transport.abort()

    def _handle_frame(self, frame: Frame) -> None:
        is_in_block = self._budgets.is_in_block
        is_open = frame.stream_id in self._open
        is_late = not is_open and frame.stream_id <= self._h2.highest_inbound_stream_id
        self._budgets.admit(frame, self._loop.time(), is_open=is_open, is_late=is_late)
        if frame.type == GOAWAY and not is_in_block:
            # The client opens no more streams. The open ones go on.
            self._drain()
            return
        for event in self._h2.receive_data(frame.raw):
            self._handle_h2_event(event)

    def _handle_h2_event(self, event: events.Event) -> None:
        if isinstance(event, events.RequestReceived):
            self._handle_request(event)
        elif isinstance(event, events.DataReceived):
            self._handle_data(event)
        elif isinstance(event, events.StreamEnded):
            if (stream := self._open.get(event.stream_id)) is not None:
                stream.end_request()
        elif isinstance(event, events.StreamReset):
            self._handle_reset(event)
        elif isinstance(event, events.WindowUpdated):
            self._output.wake(event.stream_id)
        elif isinstance(event, events.RemoteSettingsChanged):
            bound_settings(self._h2)
            self._output.wake()

    def _handle_request(self, event: events.RequestReceived) -> None:
        stream_id = event.stream_id
        # The library ends the connection when a body does not have its length. ``Http2Stream`` ends the stream.
        self._h2.streams[stream_id]._expected_content_length = None
        self._deadline.note_request()
        calls = len(self._streams) + len(self._unstarted)
        if self.is_draining or len(self._open) >= MAX_STREAMS or calls >= MAX_CALLS:
            self._refuse_stream(stream_id)
            return
        try:
            stream = self._new_stream(stream_id, parse_request_head(event.headers))
        except HeadTooLargeError as error:
            self._refuse(event, Refusal("request_header_fields_too_large", str(error)))
        except MalformedError as error:
            self._refuse(event, Refusal("bad_request", str(error)))
        else:
            self._unstarted.append(stream)

    def _new_stream(self, stream_id: int, head: RequestHead) -> Http2Stream:
        stream = Http2Stream(self._output, stream_id, head, self.peer, self._remove_stream)
        self._open[stream_id] = stream
        return stream

    def _refuse(self, event: events.RequestReceived, refusal: Refusal) -> None:
        """Answer a request that does not become a call."""
        self._budgets.resets.take(1, self._loop.time())
        stream = self._new_stream(event.stream_id, empty_head("2"))
        stream.request_has_ended = event.stream_ended is not None
        stream.respond_now(self.settings.refuse(refusal))

    def _refuse_stream(self, stream_id: int) -> None:
        self._budgets.resets.take(1, self._loop.time())
        if self.is_draining and not self._is_finished:
            self._goaways.send_refusing(stream_id)
        self._output.reset(stream_id, ErrorCodes.REFUSED_STREAM)

    def _handle_data(self, event: events.DataReceived) -> None:
        if (stream := self._open.get(event.stream_id)) is not None:
            stream.feed(event.data, event.flow_controlled_length)
        elif event.flow_controlled_length:
            self._output.open_window(event.stream_id, event.flow_controlled_length)

    def _handle_reset(self, event: events.StreamReset) -> None:
        if not event.remote_reset:
            self._budgets.resets.take(1, self._loop.time())
        if (stream := self._open.pop(event.stream_id, None)) is not None:
            stream.mark_client_gone()
            stream.close(None)
            self._after_removal()

    @property
    def used_window_bytes(self) -> tuple[int, int]:
        return used_window_bytes(self._h2)

    # The end of a stream.

    def _remove_stream(self, stream: Http2Stream, reset_code: ErrorCodes | None) -> None:
        """Remove ``stream`` from the connection, unless the client has reset it."""
        if self._open.pop(stream.stream_id, None) is None:
            return
        if reset_code is not None:
            self._output.reset(stream.stream_id, reset_code)
        elif not stream.request_has_ended:
            self._output.reset(stream.stream_id, ErrorCodes.NO_ERROR)
            self._budgets.credit_early_answer()
        self._after_removal()

    def _after_removal(self) -> None:
        self._deadline.note_idle()
        if self.is_draining and not self._open:
            self._finish_drain()
        else:
            self._send_first_goaway()
            self._set_deadline()
            self._close_if_retired()

    def _on_stream_end(self, stream: Stream) -> None:
        if isinstance(stream, Http2Stream) and self._open.get(stream.stream_id) is stream:
            stream.close(ErrorCodes.CANCEL)

    def _fail_stream(self, stream: Stream) -> None:
        if isinstance(stream, Http2Stream) and self._open.get(stream.stream_id) is stream:
            if stream.is_answered:
                stream.abort()
            else:
                stream.respond_now(self.settings.refuse(Refusal("internal_error", "")))

    # The end of the connection.

    def eof_received(self) -> None:
        self._mark_all_gone()
        if not self._is_finished:
            self._output.flush()
            self._is_finished = True
        self.transport.close()

    def connection_lost(self) -> None:
        self._is_finished = True
        self._mark_all_gone(cut_off=self.transport.is_cut_off)
        self._deadline.close()
        self._output.close()

    # GOAWAY waits until no stream is open, or until the client opens another one. Clients on the h2 library (httpx is
    # one) read no more of an answer after a GOAWAY.

    def announce_end(self) -> None:
        self._goaways.is_wanted = True
        self._send_first_goaway()

    def _send_first_goaway(self) -> None:
        if not (self._open or self.is_draining or self._is_finished):
            self._goaways.send_first()

    def retire(self) -> None:
        self._is_retiring = True
        self._close_if_retired()

    def _close_if_retired(self) -> None:
        """Close a retiring connection that has served a stream and has none now.

        The GOAWAY names the newest stream that was served. So a client may safely repeat a later request, and clients
        do. The connection serves at least one stream: some clients (httpx) take a GOAWAY of stream 0 as an error.
        """
        if self._is_retiring and self._h2.highest_inbound_stream_id and not (self._open or self._unstarted):
            self.close_when_idle()

    def close_when_idle(self) -> None:
        self._goaways.is_wanted = True
        self._drain()

    def _drain(self) -> None:
        self.is_draining = True
        if not self._open:
            self._finish_drain()

    def _finish_drain(self) -> None:
        if not self._is_finished:
            self._goaways.send_last()
        self._finish()

    def _close_with_error(self, code: ErrorCodes, reason: str, *, is_announced: bool = False) -> None:
        """Send GOAWAY and close. The client of every stream is gone."""
        log.debug("an HTTP/2 connection is closed (%s): %s", code.name, reason)
        self._mark_all_gone()
        if not is_announced:
            self._output.send_goaway(code)
        self._finish()

    def _finish(self) -> None:
        """Close after the client has read the waiting bytes. Drop its own bytes until then, to prevent a reset."""
        if not self._is_finished:
            self._output.flush()
            self._is_finished = True
            self.transport.write_eof()
            self._deadline.set(self.settings.linger_s)

    def _mark_all_gone(self, *, cut_off: bool = False) -> None:
        streams = [*self._open.values(), *self._unstarted]
        self._open.clear()
        self._unstarted.clear()
        for stream in streams:
            stream.mark_client_gone(cut_off=cut_off)

    # Time.

    def _set_deadline(self) -> None:
        if not self._is_finished:
            self._deadline.schedule(self._output.progress_at_s if self._open else None)

    def _expire(self) -> None:
        if self._is_finished:
            self.transport.close()
        elif not self._deadline.is_in_head and self._open:
            self._expire_write()
        else:
            self._close_with_error(ErrorCodes.NO_ERROR, "too slow, or idle")

    def _expire_write(self) -> None:
        """Cut the client off if it read none of the bytes that streams wait to send."""
        if not self._output.has_blocked:
            self._deadline.set(self.settings.write_timeout_s)
        elif self._loop.time() - self._output.progress_at_s < self.settings.write_timeout_s:
            self._set_deadline()
        else:
            self._mark_all_gone(cut_off=True)
            self.transport.abort()
