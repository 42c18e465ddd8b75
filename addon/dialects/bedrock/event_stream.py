"""Amazon's event stream: binary frames are cut, checked, and become server-sent events. Pure.

| bytes | part of a frame |
|---|---|
| 4 | the length of the whole frame |
| 4 | the length of the headers |
| 4 | the CRC-32 of these eight bytes |
| | the headers: each has a name, the type of its value, and the value |
| | the payload: JSON |
| 4 | the CRC-32 of all bytes before |

All numbers are unsigned and big-endian. Source: AWS, Amazon Transcribe, "Event stream encoding"; Smithy,
"application/vnd.amazon.eventstream"; botocore 1.44.5, ``eventstream``.
"""

import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from addon.answers.reader import AnswerReader, ReaderWrapper
from addon.answers.stream import MAX_EVENT_BYTES, StreamedAnswerReader
from addon.text.errors import ErrorAnswer, unreadable_answer
from addon.text.json_encode import encode_json

MAX_HEADERS_BYTES: Final = 128 * 1024
"""The longest headers that Amazon's own libraries accept."""
MAX_FRAME_BYTES: Final = MAX_EVENT_BYTES
MIN_FRAME_BYTES: Final = 16
_SHORT_HEADERS_BYTES: Final = 256
_FIRST_BYTE: Final = 0  # A frame is shorter than 16 MiB, so the first byte of its length is zero.

_PRELUDE: Final = struct.Struct(">III")
_CRC: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct(">H")
_STRING: Final = 7
_BYTES: Final = 6
_FIXED_SIZES: Final[Mapping[int, int]] = MappingProxyType({0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16})
"""The size of a value by its type: true, false, 1 to 8 bytes of an integer, a time, a UUID."""

# The status that each exception has outside a stream. Source: the service model of botocore 1.44.5.
_STATUSES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "validationException": 400,
        "accessDeniedException": 403,
        "resourceNotFoundException": 404,
        "modelTimeoutException": 408,
        "modelStreamErrorException": 424,
        "throttlingException": 429,
        "modelNotReadyException": 429,
        "internalServerException": 500,
        "serviceUnavailableException": 503,
    }
)

_MALFORMED: Final = unreadable_answer("a frame of its stream is malformed.")
_DAMAGED: Final = unreadable_answer("a frame of its stream is damaged.")
_TOO_LARGE: Final = unreadable_answer("a frame of its stream is too large.")


class FrameError(Exception):
    """A frame that can't be read; ``failure`` says why."""

    def __init__(self, failure: ErrorAnswer) -> None:
        super().__init__(failure.message)
        self.failure = failure


class FrameSplitter:
    """Cuts a stream into frames. The result is the same for every way of cutting the stream into pieces."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._pending = bytearray()
        self._at = 0
        """Where the next frame begins."""
        self._max_frame_bytes = max_frame_bytes

    def add(self, piece: bytes) -> None:
        """Add the next bytes of the stream."""
        del self._pending[: self._at]
        self._at = 0
        self._pending += piece

    @property
    def taken_bytes(self) -> int:
        """The size of the frames that were taken since the last bytes were added."""
        return self._at

    def take(self) -> tuple[Mapping[str, str], bytes] | None:
        """Return the headers and the payload of the next frame, or None when it has not ended.

        Raises FrameError. A wrong length is found before the frame is there.
        """
        pending, at = self._pending, self._at
        left = len(pending) - at
        if left < _PRELUDE.size:
            return None
        length, headers_length, crc = _PRELUDE.unpack_from(pending, at)
        if zlib.crc32(pending[at : at + 8]) != crc:
            raise FrameError(_DAMAGED)
        if length > self._max_frame_bytes or headers_length > MAX_HEADERS_BYTES:
            raise FrameError(_TOO_LARGE)
        if length < MIN_FRAME_BYTES + headers_length:
            raise FrameError(_MALFORMED)
        if left < length:
            return None
        frame = bytes(pending[at : at + length])
        self._at += length
        if zlib.crc32(frame[:-4]) != _CRC.unpack_from(frame, length - 4)[0]:
            raise FrameError(_DAMAGED)
        end = _PRELUDE.size + headers_length
        headers = frame[_PRELUDE.size : end]
        read = _read_short_headers if headers_length <= _SHORT_HEADERS_BYTES else _read_headers
        return read(headers), frame[end:-4]

    def clear(self) -> None:
        """Forget all bytes."""
        self._pending.clear()
        self._at = 0


def _read_headers(text: bytes) -> Mapping[str, str]:
    """Return the headers whose value is a string. Raises FrameError."""
    found: dict[str, str] = {}
    names: set[str] = set()
    at = 0
    try:
        while at < len(text):
            name_end = at + 1 + text[at]
            name, kind = text[at + 1 : name_end].decode(), text[name_end]
            at = name_end + 1
            if (size := _FIXED_SIZES.get(kind)) is None:
                if kind not in (_STRING, _BYTES):
                    raise FrameError(_MALFORMED)
                (size,) = _LENGTH.unpack_from(text, at)
                at += _LENGTH.size
            if at + size > len(text) or not name or name in names:
                raise FrameError(_MALFORMED)
            names.add(name)
            if kind == _STRING:
                found[name] = text[at : at + size].decode()
            at += size
    except (IndexError, struct.error, UnicodeDecodeError):
        raise FrameError(_MALFORMED) from None
    return found


_read_short_headers: Final = lru_cache(maxsize=64)(_read_headers)
"""Nearly all frames of a stream have one of few headers."""


class EventStreamReader(ReaderWrapper):
    """The reader of an event stream. It gives the reader inside it a server-sent event for each frame.

    The JSON of an event has one member: the type of the event, and its payload. A body that begins with another byte
    than a frame is text, mostly an error. The inner reader gets it as it is.
    """

    def __init__(self, inner: StreamedAnswerReader) -> None:
        self.inner: AnswerReader = inner
        self._stream = inner
        self._splitter = FrameSplitter()
        self._is_text: bool | None = None  # None before the first byte
        self._is_broken = False

    def feed(self, piece: bytes) -> bytes:
        """Read the frames that end in ``piece``."""
        if self._is_broken or not piece:
            return b""
        if self._is_text is None:
            self._is_text = piece[0] != _FIRST_BYTE
        if self._is_text:
            return self.inner.feed(piece)
        self._splitter.add(piece)
        events, failure = [], None
        try:
            while (frame := self._splitter.take()) is not None:
                events.append(_as_event(*frame))
        except FrameError as error:
            failure = error.failure
        text = b"".join(events)
        self._stream.framing_bytes = max(0, self._splitter.taken_bytes - len(text))
        shown = self.inner.feed(text) if events else b""
        if failure:
            self._is_broken = True
            self._splitter.clear()
            if not (self.inner.is_done or self.inner.failure):
                self.inner.failure = failure
        return shown

    def finish(self) -> bytes:
        """End the inner reader. A frame that was cut off is not read."""
        return self.inner.finish()


def _as_event(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return a frame as a server-sent event. Raises FrameError for a frame of another type."""
    # In JSON a line end can only be between tokens, so a space can replace it.
    line = payload.replace(b"\r", b" ").replace(b"\n", b" ") or b"{}"
    match headers.get(":message-type"):
        case "event":
            return b"data: {%b:%b}\n\n" % (encode_json(headers.get(":event-type", "")), line)
        case "exception":
            status = _STATUSES.get(headers.get(":exception-type", ""), 502)
            return b'event: error\ndata: {"error":%b,"code":%d}\n\n' % (line, status)
        case "error":
            shown = {"message": headers.get(":error-message") or headers.get(":error-code", "")}
            return b"event: error\ndata: %b\n\n" % encode_json({"error": shown})
    raise FrameError(_MALFORMED)
