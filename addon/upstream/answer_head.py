"""``AnswerHeadReader``: reads the head of a provider's answer from the bytes of its connection. Pure."""

from typing import Final

from addon.text.http1_heads import MAX_HEAD_BYTES, HttpSyntaxError, find_head_end, parse_response_head
from addon.text.http_heads import ResponseHead

MAX_INTERIM_ANSWERS: Final = 16

_SWITCHING_PROTOCOLS: Final = 101


class AnswerHeadReader:
    """Reads one head, in any number of pieces, and skips the interim answers before it."""

    __slots__ = ("_buffer", "_interim_answers", "_searched")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._interim_answers = 0

    def feed(self, data: bytes) -> tuple[ResponseHead, bytes] | None:
        """Return the head and the bytes after it, or None while it is not whole. Raises HttpSyntaxError."""
        if self._buffer:
            self._buffer += data
            # Until the head is whole, the buffer grows in place.
            if find_head_end(self._buffer, self._searched) < 0:
                self._wait_for_rest()
                return None
            data = bytes(self._buffer)
            self._buffer.clear()
        while (end := find_head_end(data)) >= 0:
            if end > MAX_HEAD_BYTES:
                raise HttpSyntaxError("the head of the answer is too long")
            head, data = parse_response_head(data[:end]), data[end:]
            if not 100 <= head.status < 200:
                return head, data
            self._interim_answers += 1
            if head.status == _SWITCHING_PROTOCOLS or self._interim_answers > MAX_INTERIM_ANSWERS:
                raise HttpSyntaxError("too many interim answers, or a change of the protocol")
        self._buffer += data
        self._wait_for_rest()
        return None

    def _wait_for_rest(self) -> None:
        if len(self._buffer) > MAX_HEAD_BYTES:
            raise HttpSyntaxError("the head of the answer is too long")
        self._searched = max(0, len(self._buffer) - 3)
