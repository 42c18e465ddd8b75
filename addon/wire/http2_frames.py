"""Frames of an HTTP/2 client before the h2 library gets them: cut out of each read, and counted against budgets.

The library buffers until a frame is whole, whatever length the frame claims. It also handles everything of one read
before its caller sees an event. So the gateway bounds frames and counts their cost before the library gets them.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from h2.errors import ErrorCodes

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES: Final = 9
MAX_PAYLOAD_BYTES: Final = 16_384
"""Our SETTINGS_MAX_FRAME_SIZE: the least that RFC 9113, 4.2, allows."""
MAX_BLOCK_BYTES: Final = 65_536
"""The bound of an encoded header block, HEADERS and CONTINUATION together."""
MAX_SETTINGS: Final = 32
"""The bound of one SETTINGS frame. Source: nghttp2's NGHTTP2_DEFAULT_MAX_SETTINGS."""
SMALL_FRAME_BYTES: Final = 256
"""A DATA frame with fewer bytes costs the server more than its client."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM = ACK = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
LATE_BYTES: Final = 70_000
"""How much may be on its way to a stream when it closes: its window of 65,535, in frames."""
_BLOCK_TYPES = (HEADERS, CONTINUATION)


class Frame(NamedTuple):
    """One whole frame. ``raw`` has all of its bytes."""

    type: int
    flags: int
    stream_id: int
    raw: bytes

    @property
    def payload_bytes(self) -> int:
        """The length of the payload."""
        return len(self.raw) - HEADER_BYTES

    @property
    def data_bytes(self) -> int:
        """The length of a DATA frame's data, without padding."""
        if self.flags & PADDED and self.payload_bytes:
            return max(self.payload_bytes - 1 - self.raw[HEADER_BYTES], 0)
        return self.payload_bytes


class FrameError(Exception):
    """The client's frames end the connection, with ``code``."""

    code = ErrorCodes.PROTOCOL_ERROR


class PrefaceError(FrameError):
    """The connection does not begin as RFC 9113, 3.4, requires."""


class FrameSizeError(FrameError):
    """A frame is longer than SETTINGS_MAX_FRAME_SIZE."""

    code = ErrorCodes.FRAME_SIZE_ERROR


class BudgetError(FrameError):
    """The client costs more than it may. The message names the budget."""

    code = ErrorCodes.ENHANCE_YOUR_CALM


class FrameReader:
    """A reader that cuts the client's bytes into frames."""

    def __init__(self) -> None:
        self._rest = b""
        self._has_begun = False

    @property
    def is_in_head(self) -> bool:
        """Whether a HEADERS or CONTINUATION frame has begun to arrive, but is not whole."""
        return self._has_begun and len(self._rest) > 3 and self._rest[3] in _BLOCK_TYPES

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that ``data`` completes. Raise PrefaceError or FrameSizeError."""
        buffer = self._rest + data if self._rest else data
        position = 0
        if not self._has_begun:
            if not PREFACE.startswith(buffer[: len(PREFACE)]):
                raise PrefaceError("preface")
            if len(buffer) < len(PREFACE):
                self._rest = buffer
                return
            self._has_begun = True
            position = len(PREFACE)
        while len(buffer) - position >= HEADER_BYTES:
            length = int.from_bytes(buffer[position : position + 3])
            if length > MAX_PAYLOAD_BYTES:
                raise FrameSizeError("frame size")
            end = position + HEADER_BYTES + length
            if end > len(buffer):
                break
            stream_id = int.from_bytes(buffer[position + 5 : position + 9]) & 0x7FFF_FFFF
            yield Frame(buffer[position + 3], buffer[position + 4], stream_id, buffer[position:end])
            position = end
        self._rest = buffer[position:]


class Budget:
    """A token bucket: it starts with ``burst`` tokens, which is also its bound, and gains ``refill_per_s``."""

    def __init__(self, name: str, burst: int, refill_per_s: float) -> None:
        self._name = name
        self._burst = burst
        self._refill_per_s = refill_per_s
        self._tokens = float(burst)
        self._taken_at_s: float | None = None

    def take(self, tokens: int, now_s: float) -> None:
        """Take ``tokens`` at ``now_s``, the loop's time. Raise BudgetError when there are too few."""
        if self._taken_at_s is not None:
            refill = (now_s - self._taken_at_s) * self._refill_per_s
            self._tokens = min(self._burst, self._tokens + refill)
        self._taken_at_s = now_s
        self._tokens -= tokens
        if self._tokens < 0:
            raise BudgetError(self._name)

    def refund(self, tokens: int) -> None:
        """Put ``tokens`` back, up to the bound."""
        self._tokens = min(self._burst, self._tokens + tokens)


class FrameBudgets:
    """All budgets of one connection."""

    def __init__(self) -> None:
        self.resets = Budget("resets", 1_000, 33)
        """Streams that the client reset, or caused us to reset. As nghttp2_option_set_stream_reset_rate_limit."""
        self._control = Budget("control frames", 1_000, 33)
        """PING, SETTINGS, PRIORITY, GOAWAY and unknown frames, one more for each 256 bytes, and empty frames.

        The burst is Envoy's max_outbound_control_frames. It bounds what we must send in reply to them.
        """
        self._window_updates = Budget("window updates", 2_000, 33)
        self._small_data = Budget("small DATA frames", 4_000, 1_000)
        """A frame costs about 40 µs, so this many a second are 4 % of a core."""
        self._late_bytes = Budget("DATA of closed streams", 8 * 1_048_576, 1_048_576)
        """A little more than what may be on its way to 100 streams of 64 KiB when they close."""
        self._block_bytes: int | None = None

    @property
    def is_in_block(self) -> bool:
        """Whether a header block has begun and not ended."""
        return self._block_bytes is not None

    def admit(self, frame: Frame, now_s: float, *, is_open: bool, is_late: bool) -> None:
        """Count ``frame``. Its stream ``is_open``, or ``is_late``: no longer open. Raise BudgetError."""
        kind = frame.type
        if kind == DATA:
            self._admit_data(frame, now_s, is_open=is_open)
        elif kind in _BLOCK_TYPES:
            if kind == HEADERS and is_late:
                self.resets.take(1, now_s)
            self._admit_block(frame, now_s)
        elif kind == RST_STREAM:
            self.resets.take(1, now_s)
        elif kind == WINDOW_UPDATE:
            self._window_updates.take(1, now_s)
        else:
            if kind == SETTINGS and frame.payload_bytes > 6 * MAX_SETTINGS:
                raise BudgetError("settings in a frame")
            self._control.take(1 + frame.payload_bytes // SMALL_FRAME_BYTES, now_s)

    def credit_sent_data(self) -> None:
        """Allow ten more window updates for a DATA frame that was sent.

        Source: Envoy's max_inbound_window_update_frames_per_data_frame_sent.
        """
        self._window_updates.refund(10)

    def credit_early_answer(self) -> None:
        """Allow what is on its way to a stream that we answered and reset before its request ended.

        That is at most its window and an empty END_STREAM.
        """
        self._late_bytes.refund(LATE_BYTES)
        self._control.refund(1)

    def _admit_data(self, frame: Frame, now_s: float, *, is_open: bool) -> None:
        if not is_open:
            self._late_bytes.take(len(frame.raw), now_s)
        if frame.flags & END_STREAM and is_open:
            return
        size = frame.data_bytes
        if not size:
            self._control.take(1, now_s)
        elif size < SMALL_FRAME_BYTES:
            self._small_data.take(1, now_s)

    def _admit_block(self, frame: Frame, now_s: float) -> None:
        if frame.type == CONTINUATION or not frame.payload_bytes:
            self._control.take(1, now_s)
        self._block_bytes = (self._block_bytes or 0) + frame.payload_bytes
        if self._block_bytes > MAX_BLOCK_BYTES:
            raise BudgetError("bytes of a header block")
        if frame.flags & END_HEADERS:
            self._block_bytes = None
