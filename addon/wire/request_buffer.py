"""``RequestBuffer``: the bytes of the next requests of a client connection of HTTP/1.1. Pure."""

from addon.text.http1_heads import MAX_HEAD_BYTES, MAX_HEAD_LINES, find_head_end, skip_blank_lines

MAX_BLANK_BYTES = 16_384
"""The bound of the empty lines that are skipped before a request line. Source: RFC 9112, 2.2."""


class HeadTooLargeError(Exception):
    """A request head, or the empty lines before it, exceed a bound."""


class RequestBuffer:
    """The bytes that were received after the last request. ``cut_head`` takes the next head from them."""

    def __init__(self) -> None:
        self.data = b""
        self._searched_bytes = 0
        self._blank_bytes = 0

    def cut_head(self) -> bytes | None:
        """Return the next head, or None while it is not whole. Needs a byte at least. Raises HeadTooLargeError."""
        data = self.data
        if data[0] == 13:
            blank = skip_blank_lines(data)
            data = self.data = data[blank:]
            self._blank_bytes += blank
        end = find_head_end(data, max(self._searched_bytes - 3, 0)) if data else -1
        if (
            (len(data) if end < 0 else end) > MAX_HEAD_BYTES
            or self._blank_bytes > MAX_BLANK_BYTES
            or data.count(b"\n", 0, max(end, 0)) > MAX_HEAD_LINES
        ):
            raise HeadTooLargeError
        if end < 0:
            self._searched_bytes = len(data)
            return None
        self.data = data[end:]
        self._searched_bytes = self._blank_bytes = 0
        return data[:end]
