"""``Http1Connection``: a client that speaks HTTP/1.1 or HTTP/1.0, one request after another.

What is received goes to the state the connection is in: ``_read_head``, ``_read_body``, ``_discard_body``, ``_drop``.
"""

import asyncio
from collections.abc import Callable

from addon.runtime.deadline import MovableDeadline
from addon.text.http1 import (
    MAX_HEAD_BYTES,
    MAX_HEAD_LINES,
    Framing,
    HttpSyntaxError,
    TooLargeError,
    find_head_end,
    parse_request_head,
    request_framing,
    skip_blank_lines,
)
from addon.text.http_heads import Headers, RequestHead
from addon.wire.connection import ClientTransport, Connection, ServeStream, WireSettings
from addon.wire.http1_stream import Http1Stream
from addon.wire.stream import ClientLeft, Stream
from policies.refusal import Refusal

MAX_BLANK_BYTES = 16_384
"""Empty lines before a request line are skipped (RFC 9112, 2.2), up to here."""

NO_HEAD = RequestHead("GET", "/", "1.1", Headers())
"""Stands for the head of what could not be read."""


class Http1Connection(Connection):
    """One client connection. At most one request is served at a time; the next ones wait as bytes, within bounds."""

    def __init__(
        self,
        transport: ClientTransport,
        serve_stream: ServeStream,
        settings: WireSettings,
        peer: tuple[str, int],
    ) -> None:
        super().__init__(transport, serve_stream, settings, peer)
        self._receive: Callable[[bytes], None] = self._read_head
        self._expire: Callable[[], None] = self._expire_head
        self._buffer = b""
        self._searched = 0
        self._blank_bytes = 0
        self._head_begun = False
        self._stream: Http1Stream | None = None
        self._deadline = MovableDeadline(lambda: self._expire())
        self._deadline.set(settings.head_timeout_s)

    def data_received(self, data: bytes) -> None:
        self._receive(data)

    def eof_received(self) -> None:
        stream = self._stream
        if stream and not stream.is_ended:
            # A client that closes its sending half is taken to be gone, as by nginx.
            stream.leave()
            self.transport.abort()
        else:
            self.transport.close()

    def connection_lost(self) -> None:
        self._receive = self._drop
        self._buffer = b""
        self._deadline.close()
        if self._stream and not self._stream.is_ended:
            self._stream.leave(cut_off=self.transport.is_cut_off)

    def announce_end(self) -> None:
        self.is_draining = True
        if self._stream:
            self._stream.closes = True

    def close_when_idle(self) -> None:
        self.announce_end()
        if self._stream:
            return
        if self._receive == self._read_head:
            self.transport.close()
        elif self._receive != self._drop:
            self._close_gently()

    # Requests.

    def _read_head(self, data: bytes) -> None:
        self._buffer += data
        self._begin_next()

    def _begin_next(self) -> None:
        """Begin to serve the next request, if its head is there."""
        if self._receive != self._read_head or self._stream or not self._buffer:
            return
        try:
            raw = self._take_head()
            if raw is None:
                return
            head = parse_request_head(raw)
            framing = request_framing(head)
        except TooLargeError:
            self.refuse(Refusal("request_too_large", "The request body is too large."))
        except HttpSyntaxError:
            self.refuse(Refusal("bad_request", "The request is not well-formed HTTP/1.1."))
        else:
            self._serve_request(head, framing)

    def _take_head(self) -> bytes | None:
        """Return the bytes of the next head, and None where it has not come yet, or the client was refused."""
        buffer = self._buffer
        if buffer[0] == 13:
            blank = skip_blank_lines(buffer)
            buffer = self._buffer = buffer[blank:]
            self._blank_bytes += blank
        end = find_head_end(buffer, max(self._searched - 3, 0)) if buffer else -1
        if (
            (len(buffer) if end < 0 else end) > MAX_HEAD_BYTES
            or self._blank_bytes > MAX_BLANK_BYTES
            or buffer.count(b"\n", 0, max(end, 0)) > MAX_HEAD_LINES
        ):
            told = f"The request head exceeds {MAX_HEAD_BYTES} bytes, or {MAX_HEAD_LINES} lines."
            self.refuse(Refusal("request_header_fields_too_large", told))
            return None
        if end < 0:
            self._searched = len(buffer)
            if not self._head_begun:
                # Set once a head: a client that drips a byte at a time gains nothing by it.
                self._head_begun = True
                self._deadline.set(self.settings.head_timeout_s)
            return None
        self._buffer = buffer[end:]
        return buffer[:end]

    def _serve_request(self, head: RequestHead, framing: Framing) -> None:
        self._searched = self._blank_bytes = 0
        self._head_begun = False
        self._deadline.clear()
        stream = self._new_stream(head, framing)
        stream.closes = stream.closes or self.is_draining
        self._stream = stream
        self._receive = self._read_body
        if self._buffer:
            rest, self._buffer = self._buffer, b""
            self._read_body(rest)
        stream.expect_continue()
        # The last step: the task may have ended, and the next request begun, when this returns.
        self._begin_stream(stream)

    def _new_stream(self, head: RequestHead, framing: Framing) -> Http1Stream:
        return Http1Stream(head, framing, self.transport, self.settings, self.peer, self._check_unread)

    def _read_body(self, data: bytes) -> None:
        stream = self._stream
        if stream is None:
            return
        if stream.body.is_done:
            self._keep(data, stream)
        else:
            try:
                stream.feed(data)
            except HttpSyntaxError:
                self._break_framing(stream)
                return
            if stream.body.rest:
                rest, stream.body.rest = stream.body.rest, b""
                self._keep(rest, stream)
        self._check_unread()

    def _keep(self, data: bytes, stream: Http1Stream) -> None:
        """Keep what comes behind a request for later. Nothing is served behind one that ends the connection."""
        if not stream.closes:
            self._buffer += data

    def _check_unread(self) -> None:
        """Read on while little waits: nobody's memory is filled by a client that is faster than its calls."""
        stream = self._stream
        unread = stream.unread_bytes if stream and not stream.is_ended else 0
        if max(unread, len(self._buffer)) >= self.settings.max_unread_bytes:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def _break_framing(self, stream: Http1Stream) -> None:
        self._receive = self._drop
        stream.break_framing()
        if stream.has_left:
            self.transport.abort()

    # The end of a request.

    def _stream_ended(self, stream: Stream) -> None:
        ended = self._stream
        if ended is None or stream is not ended:
            return
        self._stream = None
        if self.transport.is_closing:
            return
        if not ended.is_ended:
            self.transport.abort()
        elif ended.closes or self.is_draining:
            self._close_gently()
        elif not ended.body.is_done:
            self._discard_rest(ended)
        elif self.transport.is_full:
            # A client that takes no answers gets no more of them.
            self._stream = ended
            self._drained = asyncio.get_running_loop().create_task(self._wait_until_drained(ended))
        else:
            self._await_next()

    async def _wait_until_drained(self, ended: Http1Stream) -> None:
        try:
            await self.transport.drain()
        except ClientLeft:
            return
        self._stream_ended(ended)

    def _await_next(self) -> None:
        self._receive, self._expire = self._read_head, self._expire_head
        self._deadline.set(self.settings.idle_timeout_s)
        self.transport.resume_reading()
        if self._buffer:
            # One request a turn of the event loop, however many came at once.
            asyncio.get_running_loop().call_soon(self._begin_next)

    def _fail(self, stream: Stream) -> None:
        if stream.has_left or not isinstance(stream, Http1Stream):
            return
        stream.closes = True
        if stream.is_answered:
            stream.abort()
        else:
            stream.respond_now(self.settings.refuse(Refusal("internal_error", "")))

    def _discard_rest(self, ended: Http1Stream) -> None:
        """Read the rest of a body whose answer came before it, so that the connection can go on."""
        left = self.settings.max_discard_bytes

        def discard(data: bytes) -> None:
            nonlocal left
            left -= len(data)
            try:
                ended.body.feed(data)
            except HttpSyntaxError:
                left = -1
            if left < 0:
                self._close_gently()
            elif ended.body.is_done:
                self._buffer += ended.body.rest
                self._await_next()

        self._receive = discard
        self._expire = self._close_gently
        self._deadline.set(self.settings.discard_timeout_s)
        self.transport.resume_reading()

    def refuse(self, refusal: Refusal) -> None:
        """Answer what never becomes a call, and close."""
        stream = self._new_stream(NO_HEAD, Framing(0))
        stream.closes = True
        stream.respond_now(self.settings.refuse(refusal))
        self.settings.refusals.info("a request was refused", event="request refused", error_code=refusal.code)
        self._close_gently()

    def _close_gently(self) -> None:
        """Say that no more comes, and read on a little: closing on unread bytes would reset the answer away."""
        self._receive, self._expire = self._drop, self._expire_linger
        self._buffer = b""
        self.transport.write_eof()
        self.transport.resume_reading()
        self._deadline.set(self.settings.linger_s)

    def _drop(self, data: bytes) -> None:
        """Take no notice."""

    # Deadlines.

    def _expire_head(self) -> None:
        """No head came in time, or no request."""
        if self._head_begun:
            self.refuse(Refusal("request_timeout", "The request head did not arrive in time."))
        else:
            self.transport.close()

    def _expire_linger(self) -> None:
        if self.transport.is_behind:
            # Somebody still reads; how slowly is the transport's to bound.
            self._deadline.set(self.settings.linger_s)
        else:
            self.transport.close()
