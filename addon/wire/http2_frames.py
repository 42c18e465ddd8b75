"""Frames of an HTTP/2 client before the library sees them: cut out of what was read, and counted against budgets.

The library keeps what it gets until a frame is whole, however long the frame claims to be, and works through what one
read brought before its caller hears of it. So frames are bounded, and budgets taken, before it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES: Final = 9
MAX_PAYLOAD_BYTES: Final = 16_384
"""Our SETTINGS_MAX_FRAME_SIZE, which is the least that RFC 9113, 4.2, allows."""
MAX_BLOCK_BYTES: Final = 65_536
"""Of a header block before it is decoded, HEADERS and CONTINUATION together."""
MAX_SETTINGS: Final = 32
"""In one SETTINGS frame. Source: nghttp2's NGHTTP2_DEFAULT_MAX_SETTINGS."""
SMALL_BYTES: Final = 256
"""A DATA frame with less costs the server more than its client."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM = ACK = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
LATE_BYTES: Final = 70_000
"""What may be under way to a stream when it is closed: its window of 65,535, in frames."""
_BLOCK_TYPES = (HEADERS, CONTINUATION)


class Frame(NamedTuple):
    """One whole frame. ``raw`` is all of its bytes."""

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


class PrefaceError(Exception):
    """The connection does not begin as RFC 9113, 3.4, wants it."""


class FrameSizeError(Exception):
    """A frame is longer than SETTINGS_MAX_FRAME_SIZE."""


class BudgetError(Exception):
    """The client costs more than it may: ENHANCE_YOUR_CALM. The message names the budget."""


class FrameReader:
    """Cuts what a client sends into frames."""

    def __init__(self) -> None:
        self._rest = b""
        self._has_begun = False

    @property
    def is_in_head(self) -> bool:
        """Whether the beginning of a HEADERS or CONTINUATION frame waits for its rest."""
        return self._has_begun and len(self._rest) > 3 and self._rest[3] in _BLOCK_TYPES

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that ``data`` completes. Raises PrefaceError or FrameSizeError."""
        buffer = self._rest + data if self._rest else data
        position = 0
        if not self._has_begun:
            if not PREFACE.startswith(buffer[: len(PREFACE)]):
                raise PrefaceError
            if len(buffer) < len(PREFACE):
                self._rest = buffer
                return
            self._has_begun = True
            position = len(PREFACE)
        while len(buffer) - position >= HEADER_BYTES:
            length = int.from_bytes(buffer[position : position + 3])
            if length > MAX_PAYLOAD_BYTES:
                raise FrameSizeError
            end = position + HEADER_BYTES + length
            if end > len(buffer):
                break
            stream_id = int.from_bytes(buffer[position + 5 : position + 9]) & 0x7FFF_FFFF
            yield Frame(buffer[position + 3], buffer[position + 4], stream_id, buffer[position:end])
            position = end
        self._rest = buffer[position:]


class Budget:
    """So many tokens at first and at most, and so many more each second."""

    def __init__(self, name: str, burst: int, refill_per_s: float) -> None:
        self._name = name
        self._burst = burst
        self._refill_per_s = refill_per_s
        self._tokens = float(burst)
        self._taken_at_s: float | None = None

    def take(self, tokens: int, now_s: float) -> None:
        """Take ``tokens`` at ``now_s``, the loop's time. Raises BudgetError."""
        if self._taken_at_s is not None:
            refill = (now_s - self._taken_at_s) * self._refill_per_s
            self._tokens = min(self._burst, self._tokens + refill)
        self._taken_at_s = now_s
        self._tokens -= tokens
        if self._tokens < 0:
            raise BudgetError(self._name)

    def give(self, tokens: int) -> None:
        """Put ``tokens`` back, up to the most there may be."""
        self._tokens = min(self._burst, self._tokens + tokens)


class FrameBudgets:
    """All budgets of one connection."""

    def __init__(self) -> None:
        self.resets = Budget("resets", 1_000, 33)
        """Streams that the client reset, or made us reset. As nghttp2's nghttp2_option_set_stream_reset_rate_limit."""
        self._control = Budget("control frames", 1_000, 33)
        """PING, SETTINGS, PRIORITY, GOAWAY, unknown frames, one for each 256 bytes, and what is empty.

        The burst is that of Envoy's max_outbound_control_frames, which bounds what we must send in reply to them.
        """
        self._window_updates = Budget("window updates", 2_000, 33)
        self._small_data = Budget("small DATA frames", 4_000, 1_000)
        """A frame costs some 40 µs: these are 4 % of a core."""
        self._late_bytes = Budget("DATA of closed streams", 8 * 1_048_576, 1_048_576)
        """What may be under way to 100 streams of 64 KiB when they are closed, and a little more."""
        self._block_bytes: int | None = None

    @property
    def is_in_block(self) -> bool:
        """Whether a header block has begun and not ended."""
        return self._block_bytes is not None

    def admit(self, frame: Frame, now_s: float, *, is_open: bool, is_late: bool) -> None:
        """Count ``frame``; ``is_open``: its stream is; ``is_late``: its stream was. Raises BudgetError."""
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
            self._control.take(1 + frame.payload_bytes // SMALL_BYTES, now_s)

    def data_sent(self) -> None:
        """A DATA frame was sent, so window updates may come. Source: ten, as Envoy's
        max_inbound_window_update_frames_per_data_frame_sent.
        """
        self._window_updates.give(10)

    def answered_early(self) -> None:
        """A stream was answered and reset before its request ended: what is under way to it costs nothing.

        That is its window at most, and an empty END_STREAM.
        """
        self._late_bytes.give(LATE_BYTES)
        self._control.give(1)

    def _admit_data(self, frame: Frame, now_s: float, *, is_open: bool) -> None:
        if not is_open:
            self._late_bytes.take(len(frame.raw), now_s)
        if frame.flags & END_STREAM and is_open:
            return
        size = frame.data_bytes
        if not size:
            self._control.take(1, now_s)
        elif size < SMALL_BYTES:
            self._small_data.take(1, now_s)

    def _admit_block(self, frame: Frame, now_s: float) -> None:
        if frame.type == CONTINUATION or not frame.payload_bytes:
            self._control.take(1, now_s)
        self._block_bytes = (self._block_bytes or 0) + frame.payload_bytes
        if self._block_bytes > MAX_BLOCK_BYTES:
            raise BudgetError("bytes of a header block")
        if frame.flags & END_HEADERS:
            self._block_bytes = None
