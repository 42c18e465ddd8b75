"""The body of a request: read within bounds of size, time and memory.

A body has 30 s and a second more for each 64 KiB of it that came. All bodies of a process have one budget of bytes, of
which no workspace holds more than it leaves free: half of it alone, a third where another does the same.
"""

from collections import Counter

from addon.calls.call_state import Call
from addon.calls.chat_request import ChatRequest, check_content_type, parse_chat_request
from addon.calls.endpoints import declared_length
from addon.runtime.deadline import Patience
from addon.runtime.heavy_work import work_off
from addon.wire.stream import Stream
from policies.refusal import Refusal

TIMEOUT_S = 30.0
BYTES_PER_S = 65_536
"""The rate at which a body gains time."""
MAX_BYTES_IN_MEMORY = 256 << 20
"""Of all bodies of one process together, each until its call has ended."""
MAX_BODIES_BEING_READ = 256
"""Of one workspace at once, of those that did not come in one piece."""


class BodyBudget:
    """Counts the bodies of one process: their bytes, and those of each workspace that are not in yet."""

    def __init__(
        self, max_bytes: int = MAX_BYTES_IN_MEMORY, max_reading: int = MAX_BODIES_BEING_READ
    ) -> None:
        self.bytes = 0
        self._max_bytes, self._max_reading = max_bytes, max_reading
        self._bytes_of: Counter[str] = Counter()
        self._reading: Counter[str] = Counter()

    def begin(self, call: Call) -> None:
        """Count one more body of which a part is in. Raises Refusal ``rate_limit_unavailable``."""
        workspace, _ = call.exchange.caller
        if self._reading[workspace.id] >= self._max_reading:
            message = (
                f"{self._max_reading} requests of the workspace are being received; try again in a moment."
            )
            raise Refusal("rate_limit_unavailable", message, retry_after_s=1)
        self._reading[workspace.id] += 1

    def end(self, call: Call) -> None:
        """The body is in, or never will be."""
        workspace, _ = call.exchange.caller
        _subtract(self._reading, workspace.id, 1)

    def take(self, call: Call, count: int) -> None:
        """Count ``count`` more bytes of a call. Raises Refusal ``rate_limit_unavailable``."""
        if not count:
            return
        workspace, _ = call.exchange.caller
        free = self._max_bytes - self.bytes - count
        if self._bytes_of[workspace.id] + count > free:
            message = "The gateway has no memory for one more request of this size; try again in a moment."
            raise Refusal("rate_limit_unavailable", message, retry_after_s=1)
        self.bytes += count
        self._bytes_of[workspace.id] += count
        call.body_bytes += count

    def give_back(self, call: Call) -> None:
        """The call has ended, and its body is forgotten."""
        if call.body_bytes:
            workspace, _ = call.exchange.caller
            self.bytes -= call.body_bytes
            _subtract(self._bytes_of, workspace.id, call.body_bytes)
            call.body_bytes = 0


def _subtract(counts: Counter[str], name: str, count: int) -> None:
    counts[name] -= count
    if not counts[name]:
        del counts[name]


async def read_chat_request(call: Call, stream: Stream, bodies: BodyBudget) -> ChatRequest:
    """Return what the body asks for. Raises ClientLeft, or Refusal for what is no chat request."""
    headers = stream.head.headers
    check_content_type(headers.get("content-type"), headers.get("content-encoding"))
    content = await _read(call, stream, bodies)
    return await work_off(len(content), parse_chat_request, content)


async def _read(call: Call, stream: Stream, bodies: BodyBudget) -> bytes:
    """Return the whole body. Its bytes are taken from the budget before it is read, where its length is known."""
    limit = call.settings.conf.limits.max_request_bytes
    bodies.take(call, declared_length(stream.head))
    pieces: list[bytes] = []
    received_bytes = 0
    is_counted = False
    patience = Patience(TIMEOUT_S)
    try:
        with stream.present(), patience:
            while piece := await stream.read():
                received_bytes += len(piece)
                if received_bytes > limit:
                    raise Refusal("request_too_large", f"The body exceeds {limit} bytes.")
                bodies.take(call, max(received_bytes - call.body_bytes, 0))
                pieces.append(piece)
                patience.extend(len(piece) / BYTES_PER_S)
                if not is_counted and not stream.has_whole_body:
                    bodies.begin(call)
                    is_counted = True
    except TimeoutError:
        raise Refusal("request_timeout", "The request body did not arrive in time.") from None
    finally:
        patience.close()
        if is_counted:
            bodies.end(call)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
