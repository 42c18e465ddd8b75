"""``Http2Stream``: one request of an HTTP/2 connection and its answer."""

import asyncio
from collections.abc import Callable

from h2.errors import ErrorCodes

from addon.text.http2_heads import body_length
from addon.text.http_heads import Field, Headers, RequestHead, Response, ResponseHead
from addon.wire.http2_output import MAX_DATA_BYTES, Http2Output
from addon.wire.stream import ClientLeft, Stream
from policies.refusal import Refusal

_BODILESS_STATUSES = frozenset({204, 304})
_FRAMING_FIELDS = frozenset({"date", "content-length"})


class Http2Stream(Stream):
    """One request and its answer. ``on_closed`` removes it from the connection, with the code of a reset, if any.

    Raises MalformedError when the field Content-Length is malformed.
    """

    def __init__(
        self,
        output: Http2Output,
        stream_id: int,
        head: RequestHead,
        peer: tuple[str, int],
        on_closed: Callable[["Http2Stream", ErrorCodes | None], None],
    ) -> None:
        super().__init__(head, peer)
        self.stream_id = stream_id
        self.request_has_ended = False
        self._output = output
        self._on_closed = on_closed
        self._length = body_length(head)
        self._received_bytes = 0
        self._pieces: list[bytes] = []
        self._unread_bytes = 0
        self._refusal: Refusal | None = None
        self._awaits_continue = head.headers.get("expect", "").lower() == "100-continue"
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._pending_head: ResponseHead | None = None
        self._has_body = True

    # The request.

    def feed(self, data: bytes, window_bytes: int) -> None:
        """Handle DATA, which used ``window_bytes`` of the client's window."""
        self._received_bytes += len(data)
        self._awaits_continue = False
        if self._length is not None and self._received_bytes > self._length:
            self._reject_body()
        if self._refusal:
            self._output.open_window(self.stream_id, window_bytes)
            return
        self._unread_bytes += window_bytes
        if data:
            self._pieces.append(data)
            _wake(self._reader)

    def end_request(self) -> None:
        """Handle the end of the request."""
        self.request_has_ended = True
        if self._length is not None and self._received_bytes < self._length:
            self._reject_body()
        _wake(self._reader)

    def _reject_body(self) -> None:
        """Handle a body that does not have its length. ``read`` raises, or a started answer ends."""
        self._drop_body()
        if self.is_answered:
            self.mark_client_gone()
        elif not self._refusal:
            self._refusal = Refusal(
                "bad_request", "The request body does not have the length of its Content-Length."
            )
            _wake(self._reader)

    def _drop_body(self) -> None:
        """Drop the unread pieces and open the window again by their size."""
        self._pieces.clear()
        if self._unread_bytes:
            self._output.open_window(self.stream_id, self._unread_bytes)
            self._unread_bytes = 0

    async def wait_for_body(self, bound_s: float) -> None:
        if self.request_has_ended or self._awaits_continue or self._refusal or self.is_client_gone:
            return
        loop = asyncio.get_running_loop()
        self._reader = loop.create_future()
        timer = loop.call_later(bound_s, _wake, self._reader)
        try:
            await self._reader
        finally:
            timer.cancel()
            self._reader = None

    def refuse_body(self, refusal: Refusal) -> None:
        if not self.request_has_ended:
            self._refusal = self._refusal or refusal
            _wake(self._reader)

    @property
    def has_whole_body(self) -> bool:
        return self.request_has_ended

    async def read(self) -> bytes:
        while True:
            if self.is_client_gone:
                raise ClientLeft
            if self._refusal:
                raise self._refusal
            if self._pieces:
                piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
                self._drop_body()
                return piece
            if self.request_has_ended or self.is_ended:
                return b""
            if self._awaits_continue:
                self._awaits_continue = False
                self._output.send_head(self.stream_id, 100, [], is_last=False)
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None

    # The answer.

    async def respond(self, response: Response) -> None:
        self._begin(response.status, [("content-length", str(len(response.body)))], response.headers.fields)
        await self._write(response.body, is_last=True)

    def respond_now(self, response: Response) -> None:
        """Send a whole small answer without waiting. Send only its head and a reset when there is no room for it."""
        self._begin(response.status, [("content-length", str(len(response.body)))], response.headers.fields)
        fits = len(response.body) <= min(self._output.room(self.stream_id), MAX_DATA_BYTES)
        body = response.body if self._has_body else b""
        self._send_head(is_last=not body)
        if not body:
            self._finish()
        elif fits:
            self._output.send_data(self.stream_id, body, is_last=True)
            self._finish()
        else:
            self.abort()

    def begin(self, head: ResponseHead) -> None:
        length = [("content-length", one) for one in head.headers.get_all("content-length")[:1]]
        self._begin(head.status, length, head.headers.fields)

    async def send(self, piece: bytes) -> None:
        if piece:
            await self._write(piece, is_last=False)

    def try_send(self, piece: bytes) -> bool:
        if self.is_client_gone or self._output.is_full:
            return False
        if self._has_body and len(piece) > min(self._output.room(self.stream_id), MAX_DATA_BYTES):
            return False
        self._send_head(is_last=False)
        if piece and self._has_body:
            self._output.send_data(self.stream_id, piece, is_last=False)
        return True

    async def end(self, last_piece: bytes = b"") -> None:
        await self._write(last_piece, is_last=True)

    def abort(self) -> None:
        if not self.is_ended:
            self.is_answered = self.is_ended = True
            self.close(ErrorCodes.INTERNAL_ERROR)

    @property
    def has_backlog(self) -> bool:
        return self._writer is not None or self._output.has_backlog

    def mark_client_gone(self, *, cut_off: bool = False) -> None:
        super().mark_client_gone(cut_off=cut_off)
        _wake(self._reader)
        _wake(self._writer)

    def wake_writer(self) -> None:
        """Try to write again: there may be room now."""
        _wake(self._writer)

    def close(self, reset_code: ErrorCodes | None) -> None:
        """Remove the stream from its connection. Reset it with ``reset_code``; None: only if its request goes on."""
        self._drop_body()
        self._on_closed(self, reset_code)

    def _begin(self, status: int, length: list[Field], fields: tuple[Field, ...]) -> None:
        bodiless = status in _BODILESS_STATUSES
        self._has_body = not bodiless and self.head.method != "HEAD"
        self.is_answered = True
        kept = [field for field in fields if field[0] not in _FRAMING_FIELDS]
        self._pending_head = ResponseHead(status, Headers([*kept, *([] if bodiless else length)]), "2")

    def _send_head(self, *, is_last: bool) -> None:
        if self._pending_head is not None:
            head, self._pending_head = self._pending_head, None
            self._output.send_head(self.stream_id, head.status, head.headers.fields, is_last=is_last)

    async def _write(self, data: bytes, *, is_last: bool) -> None:
        """Send ``data`` as fast as the client reads. The caller waits, so nothing is buffered here."""
        if self.is_client_gone:
            raise ClientLeft
        while self._output.is_full:
            await self._wait()
        if not self._has_body:
            data = b""
        if self._pending_head is not None:
            self._send_head(is_last=is_last and not data)
        elif is_last and not data:
            self._output.send_data(self.stream_id, b"", is_last=True)
        await self._write_data(data, is_last=is_last)
        if is_last:
            self._finish()

    async def _write_data(self, data: bytes, *, is_last: bool) -> None:
        position = 0
        while position < len(data):
            room = 0 if self._output.is_full else self._output.room(self.stream_id)
            if room > 0:
                end = position + min(room, MAX_DATA_BYTES)
                self._output.send_data(
                    self.stream_id, data[position:end], is_last=is_last and end >= len(data)
                )
                position = end
            else:
                await self._wait()

    def _finish(self) -> None:
        self.is_ended = True
        self.close(None)

    async def _wait(self) -> None:
        """Wait until there may be room. Raise ClientLeft when the client is gone."""
        self._writer = asyncio.get_running_loop().create_future()
        self._output.block(self.stream_id)
        try:
            await self._writer
        finally:
            self._writer = None
            self._output.unblock(self.stream_id)
        if self.is_client_gone:
            raise ClientLeft


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
