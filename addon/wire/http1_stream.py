"""``Http1Stream``: one request of an HTTP/1.1 connection and its answer."""

import asyncio
from collections.abc import Callable
from typing import Final

from addon.text.http1_body import BodyReader
from addon.text.http1_heads import (
    CHUNK,
    LAST_CHUNK,
    Framing,
    encode_chunk,
    encode_response_head,
    keeps_alive,
)
from addon.text.http_heads import Field, RequestHead, Response, ResponseHead
from addon.wire.connection import ClientTransport, WireSettings
from addon.wire.stream import ClientLeft, Stream
from policies.refusal import Refusal

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_BODILESS_STATUSES = frozenset({204, 304})


class Http1Stream(Stream):
    """One request and its answer. ``is_last``: the connection closes after the answer."""

    def __init__(
        self,
        head: RequestHead,
        framing: Framing,
        transport: ClientTransport,
        settings: WireSettings,
        peer: tuple[str, int],
        on_read: Callable[[], None],
    ) -> None:
        super().__init__(head, peer)
        self.is_last = not keeps_alive(head)
        self.body = BodyReader(framing)
        self.unread_bytes = 0
        self._length = framing.length
        self._transport = transport
        self._settings = settings
        self._on_read = on_read
        self._pieces: list[bytes] = []
        self._refusal: Refusal | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._received_bytes = 0
        self._awaits_continue = False
        self._pending_head = b""
        self._is_chunked = False
        self._has_body = True

    # The request.

    def check_expect(self) -> None:
        """Note whether the client waits for 100 Continue: it asked for it, and no byte of its body has arrived."""
        if self.head.version == "1.1" and not self._received_bytes:
            self._awaits_continue = self.head.headers.get("expect", "").lower() == "100-continue"

    def feed(self, data: bytes) -> None:
        """Handle bytes of the body. Bytes after its end are in ``body.rest``. Raise HttpSyntaxError."""
        piece = self.body.feed(data)
        if piece:
            self._awaits_continue = False
            self._received_bytes += len(piece)
            if self.is_ended:
                return
            self._pieces.append(piece)
            self.unread_bytes += len(piece)
        if self._waiting is not None and (piece or self.body.is_done):
            self._wake()

    def reject_body(self) -> None:
        """Handle a body with broken framing. ``read`` raises, or a started answer ends."""
        self.is_last = True
        if self.is_answered:
            if not self.is_ended:
                self.mark_client_gone()
        else:
            self._refusal = Refusal("bad_request", "The request body is not well-formed.")
            self._wake()

    async def wait_for_body(self, bound_s: float) -> None:
        if self.body.is_done or self._awaits_continue or self._refusal or self.is_client_gone:
            return
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = loop.call_later(bound_s, self._wake)
        try:
            await self._waiting
        finally:
            timer.cancel()
            self._waiting = None

    def refuse_body(self, refusal: Refusal) -> None:
        if not self.body.is_done:
            self._refusal = self._refusal or refusal
            self._wake()

    @property
    def has_whole_body(self) -> bool:
        return self.body.is_done

    async def read(self) -> bytes:
        while not self._pieces:
            if self.is_client_gone:
                raise ClientLeft
            if self._refusal:
                raise self._refusal
            if self.body.is_done:
                return b""
            if self._awaits_continue:
                self._awaits_continue = False
                self._transport.write(CONTINUE)
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        if self.is_client_gone:
            raise ClientLeft
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        was_full = self.unread_bytes >= self._settings.max_unread_bytes
        self.unread_bytes = 0
        if was_full:
            self._on_read()
        return piece

    def mark_client_gone(self, *, cut_off: bool = False) -> None:
        super().mark_client_gone(cut_off=cut_off)
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # The answer.

    async def respond(self, response: Response) -> None:
        if self.is_client_gone:
            raise ClientLeft
        self.respond_now(response)

    def respond_now(self, response: Response) -> None:
        """Send a whole answer, as ``respond`` does."""
        self.is_last = self.is_last or response.close
        self._pieces.clear()
        body = response.body
        has_length = response.status not in _BODILESS_STATUSES
        framing = [("content-length", str(len(body)))] if has_length else []
        head = self._encode(ResponseHead(response.status, response.headers), framing)
        has_body = has_length and self.head.method != "HEAD"
        self.is_answered = self.is_ended = True
        self._transport.write(head + body if has_body else head)

    def begin(self, head: ResponseHead) -> None:
        self._has_body = head.status not in _BODILESS_STATUSES and self.head.method != "HEAD"
        self._is_chunked = self.head.version == "1.1"
        self.is_last = self.is_last or not self._is_chunked
        framing = [("transfer-encoding", "chunked")] if self._is_chunked else []
        self._pending_head = self._encode(head, framing)
        self.is_answered = True

    @property
    def has_backlog(self) -> bool:
        return self._transport.has_backlog

    async def send(self, piece: bytes) -> None:
        if self.is_client_gone:
            raise ClientLeft
        self._write_piece(piece)
        if self._transport.is_full:
            await self._transport.drain()

    def try_send(self, piece: bytes) -> bool:
        if self.is_client_gone or self._transport.is_full:
            return False
        if self._is_chunked and self._has_body and piece and not self._pending_head:
            self._transport.write(CHUNK % (len(piece), piece))
        else:
            self._write_piece(piece)
        return True

    async def end(self, last_piece: bytes = b"") -> None:
        if self.is_client_gone:
            raise ClientLeft
        self.is_ended = True
        self._write_piece(last_piece, LAST_CHUNK)

    def _write_piece(self, piece: bytes, end: bytes = b"") -> None:
        data, self._pending_head = self._pending_head, b""
        if self._has_body:
            data += encode_chunk(piece) + end if self._is_chunked else piece
        if data:
            self._transport.write(data)

    def _encode(self, head: ResponseHead, framing: list[Field]) -> bytes:
        """Return the encoded head of an answer. It decides whether the connection closes after the answer."""
        if not self.body.is_done and self._has_too_much_left():
            self.is_last = True
        framing.append(self._settings.date.now())
        if self.is_last:
            framing.append(("connection", "close"))
        elif self.head.version == "1.0":
            framing.append(("connection", "keep-alive"))
        return encode_response_head(head, framing)

    def _has_too_much_left(self) -> bool:
        """Return whether the rest of the body will not arrive, or is too long to wait for."""
        left = (self._length or 0) - self._received_bytes
        return self._awaits_continue or left > self._settings.max_discard_bytes

    def abort(self) -> None:
        self.is_answered = self.is_ended = self.is_last = True
        self._transport.abort()
