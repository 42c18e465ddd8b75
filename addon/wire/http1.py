"""``Http1Connection``: one client connection of HTTP/1.1 or HTTP/1.0, one request after another.

``_receive`` handles the next bytes. It is the state of the connection: ``_read_head``, ``_read_body``, ``discard`` for
the rest of a body whose request is answered, and ``_ignore`` when the connection closes.
"""

import asyncio
from collections.abc import Callable

from addon.runtime.deadline import MovableDeadline
from addon.text.http1_heads import (
    MAX_HEAD_BYTES,
    MAX_HEAD_LINES,
    ContentLengthError,
    Framing,
    HttpSyntaxError,
    parse_request_head,
    request_framing,
)
from addon.text.http_heads import RequestHead
from addon.wire.connection import ClientTransport, Connection, ServeStream, WireSettings, empty_head
from addon.wire.http1_stream import Http1Stream
from addon.wire.request_buffer import HeadTooLargeError, RequestBuffer
from addon.wire.stream import ClientLeft, Stream
from policies.refusal import Refusal


class Http1Connection(Connection):
    """One client connection. It serves one request at a time. The next ones wait as bytes, within bounds."""

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
        self._buffer = RequestBuffer()
        self._has_head_begun = False
        self._is_paused = False
        self._is_retiring = False
        self._stream: Http1Stream | None = None
        self._deadline = MovableDeadline(self._on_deadline)
        self._deadline.set(settings.head_timeout_s)

    def data_received(self, data: bytes) -> None:
        self._receive(data)

    def eof_received(self) -> None:
        stream = self._stream
        if stream and not stream.is_ended:
            # A client that closes its sending half counts as gone, as in nginx.
            stream.mark_client_gone()
            self.transport.abort()
        else:
            self.transport.close()

    def connection_lost(self) -> None:
        self._receive = self._ignore
        self._buffer.data = b""
        self._deadline.close()
        if self._stream and not self._stream.is_ended:
            self._stream.mark_client_gone(cut_off=self.transport.is_cut_off)

    def announce_end(self) -> None:
        self.is_draining = True
        if self._stream:
            self._stream.is_last = True

    def retire(self) -> None:
        self._is_retiring = True
        if self._stream and not self._stream.is_answered:
            self._stream.is_last = True

    def close_when_idle(self) -> None:
        self.announce_end()
        if self._stream:
            return
        if self._receive == self._read_head:
            self.transport.close()
        elif self._receive != self._ignore:
            self._linger_and_close()

    # Requests.

    def _read_head(self, data: bytes) -> None:
        self._buffer.data += data
        self._start_next_request()

    def _start_next_request(self) -> None:
        """Serve the next request if its head has arrived."""
        if self._receive != self._read_head or self._stream or not self._buffer.data:
            return
        try:
            raw = self._buffer.cut_head()
            if raw is None:
                self._await_rest_of_head()
                return
            head = parse_request_head(raw)
            framing = request_framing(head)
        except HeadTooLargeError:
            message = f"The request head exceeds {MAX_HEAD_BYTES} bytes, or {MAX_HEAD_LINES} lines."
            self.refuse(Refusal("request_header_fields_too_large", message))
        except ContentLengthError:
            self.refuse(Refusal("request_too_large", "The request body is too large."))
        except HttpSyntaxError:
            self.refuse(Refusal("bad_request", "The request is not well-formed HTTP/1.1."))
        else:
            self._serve_request(head, framing)

    def _await_rest_of_head(self) -> None:
        if not self._has_head_begun:
            # Set once for each head, so a client that sends byte by byte gains no time.
            self._has_head_begun = True
            self._deadline.set(self.settings.head_timeout_s)

    def _serve_request(self, head: RequestHead, framing: Framing) -> None:
        self._has_head_begun = False
        self._stream = stream = self._new_stream(head, framing)
        if self.is_draining or self._is_retiring:
            stream.is_last = True
        self._receive = self._read_body
        if self._buffer.data:
            rest, self._buffer.data = self._buffer.data, b""
            self._read_body(rest)
        if not stream.body.is_done:
            stream.check_expect()
        # This must be the last step: the task may end, and the next request start, before it returns.
        self._start_stream(stream)

    def _new_stream(self, head: RequestHead, framing: Framing) -> Http1Stream:
        return Http1Stream(head, framing, self.transport, self.settings, self.peer, self._limit_unread)

    def _read_body(self, data: bytes) -> None:
        stream = self._stream
        if stream is None:
            return
        if stream.body.is_done:
            self._buffer_next(data, stream)
        else:
            try:
                stream.feed(data)
            except HttpSyntaxError:
                self._reject_body(stream)
                return
            if stream.body.rest:
                rest, stream.body.rest = stream.body.rest, b""
                self._buffer_next(rest, stream)
        if self._buffer.data or self._is_paused or stream.unread_bytes >= self.settings.max_unread_bytes:
            self._limit_unread()

    def _buffer_next(self, data: bytes, stream: Http1Stream) -> None:
        """Keep bytes after a request for the next one. Nothing follows the last request of the connection."""
        if not stream.is_last:
            self._buffer.data += data

    def _limit_unread(self) -> None:
        """Stop reading while much is unread, so that a client that is faster than its calls fills no memory."""
        stream = self._stream
        unread = stream.unread_bytes if stream and not stream.is_ended else 0
        if max(unread, len(self._buffer.data)) >= self.settings.max_unread_bytes:
            self._is_paused = True
            self.transport.pause_reading()
        elif self._is_paused:
            self._resume_reading()

    def _resume_reading(self) -> None:
        self._is_paused = False
        self.transport.resume_reading()

    def _reject_body(self, stream: Http1Stream) -> None:
        self._receive = self._ignore
        stream.reject_body()
        if stream.is_client_gone:
            self.transport.abort()

    # The end of a request.

    def _on_stream_end(self, stream: Stream) -> None:
        ended = self._stream
        if ended is None or stream is not ended:
            return
        self._stream = None
        if self.transport.is_closing:
            return
        if not ended.is_ended:
            self.transport.abort()
        elif ended.is_last or self.is_draining:
            self._linger_and_close()
        elif not ended.body.is_done:
            self._discard_body(ended)
        elif self.transport.is_full:
            # A client that does not read its answers gets no further one.
            self._stream = ended
            self._drain_task = asyncio.get_running_loop().create_task(self._wait_until_drained(ended))
        else:
            self._wait_for_request()

    async def _wait_until_drained(self, ended: Http1Stream) -> None:
        try:
            await self.transport.drain()
        except ClientLeft:
            return
        self._on_stream_end(ended)

    def _wait_for_request(self) -> None:
        self._receive, self._expire = self._read_head, self._expire_head
        self._deadline.set(self.settings.idle_timeout_s)
        if self._is_paused:
            self._resume_reading()
        if self._buffer.data:
            # Start one request in each turn of the event loop, however many arrived at once.
            asyncio.get_running_loop().call_soon(self._start_next_request)

    def _fail_stream(self, stream: Stream) -> None:
        if stream.is_client_gone or not isinstance(stream, Http1Stream):
            return
        stream.is_last = True
        if stream.is_answered:
            stream.abort()
        else:
            stream.respond_now(self.settings.refuse(Refusal("internal_error", "")))

    def _discard_body(self, ended: Http1Stream) -> None:
        """Read and drop the rest of a body whose request is already answered, so that the connection can go on."""
        left = self.settings.max_discard_bytes

        def discard(data: bytes) -> None:
            nonlocal left
            left -= len(data)
            try:
                ended.body.feed(data)
            except HttpSyntaxError:
                left = -1
            if left < 0:
                self._linger_and_close()
            elif ended.body.is_done:
                self._buffer.data += ended.body.rest
                self._wait_for_request()

        self._receive = discard
        self._expire = self._linger_and_close
        self._deadline.set(self.settings.discard_timeout_s)
        self._resume_reading()

    def refuse(self, refusal: Refusal) -> None:
        """Answer a request that does not become a call, and close."""
        stream = self._new_stream(empty_head("1.1"), Framing(0))
        stream.is_last = True
        response = self.settings.refuse(refusal)
        stream.respond_now(response)
        self.settings.refusals.info(
            "a request was refused",
            event="request refused",
            id=response.headers.get("x-request-id"),
            error_code=refusal.code,
        )
        self._linger_and_close()

    def _linger_and_close(self) -> None:
        """Close the sending half, and drop bytes that still arrive for ``linger_s``.

        If unread bytes waited at the close, the kernel would reset the connection and the client might lose the answer.
        """
        self._receive, self._expire = self._ignore, self._expire_linger
        self._buffer.data = b""
        self.transport.write_eof()
        self._resume_reading()
        self._deadline.set(self.settings.linger_s)

    def _ignore(self, data: bytes) -> None:
        """Drop the bytes."""

    # Deadlines.

    def _on_deadline(self) -> None:
        """Do what is due. While a call runs, the deadline of the wait before it does not count."""
        if self._stream is None:
            self._expire()

    def _expire_head(self) -> None:
        """Handle a head, or a next request, that did not arrive in time."""
        if self._has_head_begun:
            self.refuse(Refusal("request_timeout", "The request head did not arrive in time."))
        else:
            self.transport.close()

    def _expire_linger(self) -> None:
        if self.transport.has_backlog:
            # The client still reads. The transport bounds how slow it may be.
            self._deadline.set(self.settings.linger_s)
        else:
            self.transport.close()
