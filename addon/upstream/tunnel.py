"""``Tunnel``: a CONNECT request to an egress proxy, and the connection through it."""

import asyncio
from collections.abc import Callable
from typing import cast

from addon.text.http1_heads import MAX_HEAD_BYTES, HttpSyntaxError, find_head_end, parse_response_head
from addon.upstream.origin import Unreachable


class Tunnel(asyncio.Protocol):
    """A CONNECT request to a proxy. ``ready`` resolves to the protocol of ``make`` behind it, or to an error."""

    def __init__(self, request: bytes, make: Callable[[], asyncio.BaseProtocol]) -> None:
        self.ready: asyncio.Future[asyncio.BaseProtocol] = asyncio.get_running_loop().create_future()
        self._request = request
        self._make = make
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._sent_at_s = 0.0
        self.round_trip_s: float | None = None
        """How long the answer to CONNECT took: the way to the provider and back."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.write(self._request)
        self._sent_at_s = asyncio.get_running_loop().time()

    def data_received(self, data: bytes) -> None:
        """Handle a piece of the proxy's answer."""
        if self.ready.done() or self._transport is None:
            return
        searched = max(0, len(self._buffer) - 3)
        self._buffer += data
        try:
            end = find_head_end(self._buffer, searched)
            if end > MAX_HEAD_BYTES or (end < 0 and len(self._buffer) > MAX_HEAD_BYTES):
                raise HttpSyntaxError("its head is too long")
            if end < 0:
                return
            status = parse_response_head(bytes(self._buffer[:end])).status
        except HttpSyntaxError:
            self._fail("the egress proxy's answer is malformed")
            return
        if not 200 <= status < 300:
            self._fail(f"the egress proxy answered {status}")
        elif end < len(self._buffer):
            self._fail("the egress proxy sent bytes after its answer")
        else:
            self._open(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Fail if the proxy closed before it answered."""
        self._fail("the egress proxy closed the connection")

    def _open(self, transport: asyncio.Transport) -> None:
        self.round_trip_s = asyncio.get_running_loop().time() - self._sent_at_s
        upper = self._make()
        transport.set_protocol(upper)
        upper.connection_made(transport)
        self.ready.set_result(upper)

    def _fail(self, reason: str) -> None:
        if not self.ready.done():
            self.ready.set_exception(Unreachable(reason))
            self.ready.exception()  # The caller may have stopped waiting.
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
