"""The body of a request, read within bounds of size, time and memory.

A body has 30 s, and one more second for each 64 KiB received. All bodies of a process share one budget of bytes. A
workspace may use at most as much as is still free: one workspace alone gets half of the budget, two get a third each.
"""

from collections.abc import Callable
from functools import partial

from addon.apis.chat.request import ChatRequest, check_content_type
from addon.calls.call_state import Call
from addon.runtime.deadline import MovableDeadline
from addon.runtime.heavy_work import LIGHT_BODY_BYTES, run_heavy_work
from addon.text.http_heads import Headers, RequestHead
from addon.wire.stream import Stream
from policies.refusal import Refusal

TIMEOUT_S = 30.0
BYTES_PER_S = 65_536
"""Bytes received that add one second."""
MAX_BYTES_IN_MEMORY = 256 << 20
"""Of all bodies of one process together. A body counts until its call has ended."""
MAX_BODIES_BEING_READ = 256
"""For each workspace. Bodies that arrive in one piece do not count."""


type Parse = Callable[[bytes, Headers], ChatRequest]


class BodyBudget:
    """The bodies of one process: their bytes, and how many of each workspace are still being read."""

    def __init__(
        self, max_bytes: int = MAX_BYTES_IN_MEMORY, max_reading: int = MAX_BODIES_BEING_READ
    ) -> None:
        self.bytes = 0
        self._max_bytes, self._max_reading = max_bytes, max_reading
        self._bytes_of: dict[str, int] = {}
        self._reading: dict[str, int] = {}

    @property
    def workspace_bytes(self) -> int:
        """The same bytes, as they are counted for each workspace."""
        return sum(self._bytes_of.values())

    @property
    def reading(self) -> int:
        """How many bodies are being read."""
        return sum(self._reading.values())

    def begin(self, call: Call) -> None:
        """Count a body that is being read. Raises Refusal ``rate_limit_unavailable``."""
        workspace_id = call.exchange.workspace.id
        reading = self._reading.get(workspace_id, 0)
        if reading >= self._max_reading:
            message = (
                f"{self._max_reading} requests of the workspace are being received; try again in a moment."
            )
            raise Refusal("rate_limit_unavailable", message, retry_after_s=1)
        self._reading[workspace_id] = reading + 1

    def end(self, call: Call) -> None:
        """Stop counting a body that is being read."""
        workspace_id = call.exchange.workspace.id
        if others := self._reading.pop(workspace_id) - 1:
            self._reading[workspace_id] = others

    def take(self, call: Call, count: int) -> None:
        """Count ``count`` more bytes of a call. Raises Refusal ``rate_limit_unavailable``."""
        if not count:
            return
        workspace_id = call.exchange.workspace.id
        of_workspace = self._bytes_of.get(workspace_id, 0) + count
        if of_workspace > self._max_bytes - self.bytes - count:
            message = "The gateway has no memory for one more request of this size; try again in a moment."
            raise Refusal("rate_limit_unavailable", message, retry_after_s=1)
        self.bytes += count
        self._bytes_of[workspace_id] = of_workspace
        call.counted_bytes += count

    def give_back(self, call: Call) -> None:
        """Give the bytes of a call back, once it has ended."""
        if call.counted_bytes:
            workspace_id = call.exchange.workspace.id
            self.bytes -= call.counted_bytes
            if others := self._bytes_of.pop(workspace_id) - call.counted_bytes:
                self._bytes_of[workspace_id] = others
            call.counted_bytes = 0


def check_size(head: RequestHead, max_request_bytes: int) -> None:
    """Raise Refusal ``request_too_large`` where the declared length is too large, before the body is read."""
    if declared_length(head) > max_request_bytes:
        raise _too_large(max_request_bytes)


def _too_large(max_bytes: int) -> Refusal:
    return Refusal("request_too_large", f"The body exceeds {max_bytes} bytes.")


def declared_length(head: RequestHead) -> int:
    """Return the ``Content-Length`` of the body, 0 where there is none."""
    length = head.headers.get("content-length", "")
    # The reader of HTTP has refused any other text already.
    return int(length) if length.isdecimal() else 0


async def read_request(
    call: Call, stream: Stream, bodies: BodyBudget, parse: Parse | None = None
) -> ChatRequest:
    """Read the body, and return the request in it: in the API of the call, or as ``parse`` reads it.

    Raises ClientLeft, or Refusal for an invalid one.
    """
    headers = stream.head.headers
    check_content_type(headers.get("content-type"), headers.get("content-encoding"))
    if stream.has_whole_body:
        # No byte is waited for, so there is nothing to time.
        content = await stream.read()
        if len(content) > (limit := call.settings.conf.limits.max_request_bytes):
            raise _too_large(limit)
        bodies.take(call, len(content))
    else:
        content = await _read(call, stream, bodies)
    parse = parse or call.api.parse
    if len(content) <= LIGHT_BODY_BYTES:
        return parse(content, headers)
    return await run_heavy_work(len(content), parse, content, headers)


async def _read(call: Call, stream: Stream, bodies: BodyBudget) -> bytes:
    """Return a body that is still arriving. Where its length is known, the budget counts it before it is read."""
    limit = call.settings.conf.limits.max_request_bytes
    bodies.take(call, declared_length(stream.head))
    pieces: list[bytes] = []
    received_bytes = 0
    is_counted = False
    deadline = MovableDeadline(partial(_refuse_slow_body, stream))
    deadline.set(TIMEOUT_S)
    try:
        while piece := await stream.read():
            received_bytes += len(piece)
            if received_bytes > limit:
                raise _too_large(limit)
            if received_bytes > call.counted_bytes:
                bodies.take(call, received_bytes - call.counted_bytes)
            pieces.append(piece)
            if stream.has_whole_body:
                break
            deadline.extend(len(piece) / BYTES_PER_S)
            if not is_counted:
                bodies.begin(call)
                is_counted = True
    finally:
        deadline.close()
        if is_counted:
            bodies.end(call)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _refuse_slow_body(stream: Stream) -> None:
    stream.refuse_body(Refusal("request_timeout", "The request body did not arrive in time."))
