"""``UpstreamConnection``: one request to a provider, a POST, and its answer.

A byte that belongs to no answer closes the connection, so it is never used again. Reading stops while 64 KiB of a body
are unread.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from addon.text.http1_body import BodyReader
from addon.text.http1_heads import HttpSyntaxError, keeps_alive, parse_keep_alive_s, response_framing
from addon.text.http_heads import ResponseHead
from addon.upstream.answer_head import AnswerHeadReader
from addon.upstream.connection_error import UpstreamConnectionError
from addon.upstream.provider_socket import ProviderSocket
from policies.resend import LostRequest, compute_window_s

HIGH_WATER_BYTES: Final = 64 * 1024
"""A connection stops reading when this many bytes of a body are unread."""

SLICE_BYTES: Final = 8 * 1024
"""How much of a stream is read in one turn of the loop, so that other calls have theirs."""

_STRAY_BYTES: Final = "bytes that belong to no answer"


class UpstreamConnection:
    """A connection that one call holds, for one request and its answer, until the call releases or closes it.

    It then calls ``on_returned(socket, is_clean)`` once.
    """

    __slots__ = (
        "_body",
        "_can_be_kept",
        "_failure",
        "_has_bytes",
        "_head",
        "_head_reader",
        "_is_done",
        "_is_early",
        "_is_held",
        "_is_sent",
        "_is_written",
        "_on_piece",
        "_on_returned",
        "_pieces",
        "_socket",
        "_unread_bytes",
        "_waiter",
        "deadline",
        "is_reused",
    )

    def __init__(
        self, socket: ProviderSocket, on_returned: Callable[[ProviderSocket, bool], None], *, is_reused: bool
    ) -> None:
        self.is_reused = is_reused
        self.deadline = socket.deadline
        self._socket = socket
        self._on_returned = on_returned
        self._is_held = True
        self._is_sent = self._is_written = False
        self._is_early = True
        self._waiter: asyncio.Future[bool] | None = None
        self._on_piece: Callable[[bytes], bool] | None = None
        self._failure: UpstreamConnectionError | None = None
        self._head_reader = AnswerHeadReader()
        self._head: ResponseHead | None = None
        self._body: BodyReader | None = None
        self._pieces: list[bytes] = []
        self._unread_bytes = 0
        self._has_bytes = False
        self._is_done = False
        self._can_be_kept = True
        socket.receiver = self

    @property
    def is_ended(self) -> bool:
        """Whether all of the answer was read, to the byte."""
        return self._is_done and not self._pieces

    @property
    def has_unread(self) -> bool:
        """Whether ``take`` returns bytes now."""
        return bool(self._pieces)

    @property
    def is_stale(self) -> bool:
        """Whether the provider closed it while it was idle, or as the request came."""
        return self._failure is not None and self._failure.lost.is_stale

    def send(self, head: bytes, body: bytes) -> None:
        """Send a whole request, in one write if it is small. ``head`` reports a lost connection."""
        if self._is_sent or not self._is_held:
            raise RuntimeError("a connection serves one request each time it is acquired")
        self._is_sent = True
        if self._failure is not None:
            return
        if len(body) <= HIGH_WATER_BYTES:
            self._socket.write(head + body)
        else:
            self._socket.write(head)
            self._socket.write(body)
        self._is_written = not self._socket.is_writing
        if self.is_reused:
            self._socket.window.set(compute_window_s(self._socket.round_trip_s))

    async def head(self) -> ResponseHead:
        """Return the answer's head. Skip interim answers. Raise ``UpstreamConnectionError``."""
        while (head := self.take_head()) is None:
            await self.next_input()
        return head

    async def read(self, max_bytes: int | None = None) -> bytes:
        """Return the bytes of the body since the last read, or ``b""`` when the body is complete.

        Return all of them, or at most ``max_bytes``. Raise ``UpstreamConnectionError``, but only after the bytes that
        arrived before the error.
        """
        while (piece := self.take(max_bytes)) is None:
            await self.next_input()
        return piece

    def take_head(self) -> ResponseHead | None:
        """As ``head``, but return None if a wait is needed."""
        if self._head is None and self._failure is not None:
            raise self._failure
        return self._head

    def take(self, max_bytes: int | None = None) -> bytes | None:
        """As ``read``, but return None if a wait is needed."""
        pieces = self._pieces
        if not pieces:
            if self._is_done:
                return b""
            if self._failure is not None:
                raise self._failure
            return None
        joined = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if max_bytes is not None and len(joined) > max_bytes:
            pieces.append(joined[max_bytes:])
            joined = joined[:max_bytes]
        was_full = self._unread_bytes >= HIGH_WATER_BYTES
        self._unread_bytes -= len(joined)
        if was_full and self._unread_bytes < HIGH_WATER_BYTES and self._is_held:
            self._socket.resume()
        return joined

    def next_input(self, on_piece: Callable[[bytes], bool] | None = None) -> asyncio.Future[bool]:
        """Return a future that is True as soon as ``take_head`` or ``take`` may return something else than before.

        With unread bytes, that is in the next turn of the loop. It is False when ``deadline`` is over. If the deadline
        ended while no one waited, it has another ``GRACE_S``: the bytes may have arrived already. During the wait,
        ``on_piece`` gets the bytes of the body that arrive, at most ``SLICE_BYTES`` at once, and returns whether the
        wait goes on. Whatever it raises, the future raises.
        """
        if self._waiter is not None and not self._waiter.done():
            raise RuntimeError("another task waits for this connection")
        self._on_piece = on_piece
        waiter: asyncio.Future[bool] = asyncio.Future(loop=asyncio.get_running_loop())
        self._waiter = waiter
        if self.deadline.has_expired:
            self.deadline.set(self.deadline.GRACE_S)
        if self._pieces:
            asyncio.get_running_loop().call_soon(self._wake)
        elif self._failure is not None:
            waiter.set_result(True)
        return waiter

    def release(self) -> None:
        """Return the connection to the pool if nothing of this answer is left, else close it."""
        socket = self._socket
        may_be_kept = self._can_be_kept and not socket.is_closed and not socket.is_writing
        if not (self._is_held and self._is_done and may_be_kept) or self._pieces:
            self.close()
            return
        self._is_held = False
        self._on_piece = self._waiter = socket.receiver = None
        self._on_returned(socket, True)

    def close(self) -> None:
        """Close the connection at once, even if bytes are on their way."""
        if self._is_held:
            self._is_held = False
            self._on_piece = self._socket.receiver = None
            self._fail("the connection was closed by this process", by_provider=False)
            self._socket.abort()
            self._waiter = None
            self._on_returned(self._socket, False)

    # Called by the socket: ``Receiver``.

    def data_received(self, data: bytes) -> None:
        """Handle bytes that the provider sent."""
        if not self._is_sent or self._is_done:
            self._refuse_stray_bytes()
            return
        if self._socket.is_writing:
            self._can_be_kept = False
        self._has_bytes = True
        try:
            piece = self._read_head(data) if self._body is None else self._body.feed(data)
        except HttpSyntaxError as error:
            self._break_off(error)
            return
        may_wait_on = False
        is_small = 0 < len(piece) <= SLICE_BYTES and not self._pieces
        if is_small and self._on_piece is not None and self._waiter is not None and not self._waiter.done():
            try:
                may_wait_on = self._on_piece(piece)
            except Exception as fault:  # noqa: BLE001  (the one that waits handles it)
                self._waiter.set_exception(fault)
        elif piece:
            self._pieces.append(piece)
            self._unread_bytes += len(piece)
        body = self._body
        if body is not None and (body.is_done or not may_wait_on):
            self._after_read(body)

    def _after_read(self, body: BodyReader) -> None:
        if body.is_done:
            self._is_done = True
            if body.rest:
                self._refuse_stray_bytes()
        elif self._unread_bytes >= HIGH_WATER_BYTES:
            self._socket.pause()
        self._wake()

    def _break_off(self, error: HttpSyntaxError) -> None:
        """End an answer with broken framing. The bytes before the fault stay readable."""
        if self._body is not None and (piece := self._body.before_fault):
            self._pieces.append(piece)
            self._unread_bytes += len(piece)
        self._fail(str(error), is_malformed=True)
        self._socket.abort()

    def eof_received(self) -> None:
        """Handle the end of the provider's data. It ends a body without a length."""
        if self._body is not None and not self._is_done:
            try:
                self._body.end()
            except HttpSyntaxError as error:
                self._fail(str(error))
            else:
                self._is_done = True
                self._wake()

    def connection_lost(self, reason: str) -> None:
        """Handle the end of the socket."""
        self._fail(reason)

    def all_written(self) -> None:
        """Handle that the kernel has all of the request."""
        self._is_written = True

    def window_ended(self) -> None:
        """Handle that a request that is lost from now on may have been read."""
        self._is_early = False

    # The answer.

    def _read_head(self, data: bytes) -> bytes:
        """Read the head, once it is whole. Return the bytes of the body after it."""
        if (read := self._head_reader.feed(data)) is None:
            return b""
        self._head, rest = read
        body = self._body = BodyReader(response_framing(self._head, "POST"))
        if not keeps_alive(self._head):
            self._can_be_kept = False
        elif (asked := self._head.headers.get("keep-alive")) is not None:
            self._socket.keep_alive_s = parse_keep_alive_s(asked)
        return body.feed(rest) if rest else b""

    def _refuse_stray_bytes(self) -> None:
        """Close a connection on which bytes arrived that belong to no answer. A complete answer stays readable."""
        self._fail(_STRAY_BYTES, is_malformed=not self.is_reused)
        self._socket.abort()

    def _fail(self, reason: str, *, is_malformed: bool = False, by_provider: bool = True) -> None:
        if self._failure is None and not self._is_done:
            lost = LostRequest(by_provider, self.is_reused, self._has_bytes, self._is_written, self._is_early)
            self._failure = UpstreamConnectionError(reason, lost, is_malformed=is_malformed)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(True)

    def deadline_expired(self) -> None:
        """Handle that ``deadline`` is over."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(False)
