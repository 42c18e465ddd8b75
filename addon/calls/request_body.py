"""The body of a request: read within bounds of size, time and memory.

A body has 30 s and a second more for each 64 KiB of it that came. All bodies of a process have one budget of bytes.
"""

from collections import Counter

from addon.calls.state import Call
from addon.chat import ChatRequest, check_content_type, parse_chat_request
from addon.deadline import Patience
from addon.heavy_work import work_off
from addon.wire.stream import Stream
from policies.refusal import Refusal

TIMEOUT_S = 30.0
BYTES_PER_S = 65_536
"""The rate at which a body gains time."""
MAX_BYTES_IN_MEMORY = 256 << 20
"""Of all bodies of one process together, each from its first byte until its call has ended."""
MAX_BODIES_BEING_READ = 64
"""Of one workspace at once, of those that did not come with their heads."""


class BodyBudget:
    """Counts the bodies of one process: their bytes, and those of each workspace that are not in yet."""

    def __init__(
        self, max_bytes: int = MAX_BYTES_IN_MEMORY, max_reading: int = MAX_BODIES_BEING_READ
    ) -> None:
        self.bytes = 0
        self._max_bytes, self._max_reading = max_bytes, max_reading
        self._reading: Counter[str] = Counter()

    def begin(self, workspace: str) -> None:
        """Count one more body that is read. Raises Refusal ``rate_limit_unavailable``."""
        if self._reading[workspace] >= self._max_reading:
            message = (
                f"{self._max_reading} requests of the workspace are being received; try again in a moment."
            )
            raise Refusal("rate_limit_unavailable", message, retry_after_s=1)
        self._reading[workspace] += 1

    def end(self, workspace: str) -> None:
        """The body is in, or never will be."""
        self._reading[workspace] -= 1
        if not self._reading[workspace]:
            del self._reading[workspace]

    def take(self, call: Call, count: int) -> None:
        """Count ``count`` more bytes of a call. Raises Refusal ``rate_limit_unavailable``."""
        if self.bytes + count > self._max_bytes:
            message = "The gateway has no memory for one more request of this size; try again in a moment."
            raise Refusal("rate_limit_unavailable", message, retry_after_s=1)
        self.bytes += count
        call.body_bytes += count

    def give_back(self, call: Call) -> None:
        """The call has ended, and its body is forgotten."""
        self.bytes -= call.body_bytes
        call.body_bytes = 0


async def read_chat_request(call: Call, stream: Stream, bodies: BodyBudget) -> ChatRequest:
    """Return what the body asks for. Raises ClientLeft, or Refusal for what is no chat request."""
    headers = stream.head.headers
    check_content_type(headers.get("content-type"), headers.get("content-encoding"))
    content = await _read(call, stream, bodies)
    return await work_off(len(content), parse_chat_request, content)


async def _read(call: Call, stream: Stream, bodies: BodyBudget) -> bytes:
    workspace, _ = call.exchange.caller
    limit = call.settings.conf.limits.max_request_bytes
    pieces: list[bytes] = []
    patience = Patience(TIMEOUT_S)
    bodies.begin(workspace.id)
    try:
        with stream.present(), patience:
            while piece := await stream.read():
                bodies.take(call, len(piece))
                if call.body_bytes > limit:
                    raise Refusal("request_too_large", f"The body exceeds {limit} bytes.")
                pieces.append(piece)
                patience.extend(len(piece) / BYTES_PER_S)
    except TimeoutError:
        raise Refusal("request_timeout", "The request body did not arrive in time.") from None
    finally:
        patience.close()
        bodies.end(workspace.id)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
