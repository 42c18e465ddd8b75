"""``BodyReader``: reads the body of one HTTP/1.1 message from the bytes of its connection. Pure."""

import re

from addon.text.http1_heads import TOKEN, VALUE, Framing, HttpSyntaxError

MAX_OVERHEAD_BYTES = 16_384
"""The most bytes of chunk extensions and trailers in one message.

Plain chunk sizes don't count: each has at most 16 digits, and at least one byte of the body follows it.
"""

_SMALL_SIZES = {written: size for size in range(1, 256) for written in (b"%x" % size, b"%X" % size)}
_QUOTED = r'"(?:[ !#-\[\]-~\x80-\xff]|\\[ -~\x80-\xff])*+"'
_SIZE_LINE = re.compile(
    rf"([0-9A-Fa-f]{{1,16}})((?:;{TOKEN}++(?:=(?:{TOKEN}++|{_QUOTED}))?)*+)".encode("latin-1")
)
_PLAIN_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")
_SIZE_BEGUN = re.compile(rb"[0-9A-Fa-f]{1,16}(?:[;\r]|\Z)")
_LINE_BEGUN = re.compile(rf"{VALUE}*+\r?".encode("latin-1"))
_TRAILER = re.compile(rf"{TOKEN}++:{VALUE}*+".encode("latin-1"))

_WINDOW_BYTES = 1024
"""How many bytes are tried at once as a run of small chunks."""


def _read_small_chunks(data: bytes, at: int, pieces: list[bytes]) -> int:
    """Read chunks from ``at`` on, within one window, while they are small and have no CRLF in their bytes.

    Return the index after them. One split costs a third of the time that a look at each chunk takes.
    """
    parts = data[at : at + _WINDOW_BYTES].split(b"\r\n")
    del parts[-1]  # It has no end.
    sizes, bodies = parts[::2], parts[1::2]
    declared, lengths = list(map(_SMALL_SIZES.get, sizes)), list(map(len, bodies))
    count = len(lengths)
    if declared[:count] != lengths:
        count = next(number for number, length in enumerate(lengths) if declared[number] != length)
    pieces += bodies[:count]
    return at + sum(lengths[:count]) + sum(map(len, sizes[:count])) + 4 * count


class BodyReader:
    """Separates the bytes of one body from its framing and from the bytes that follow it.

    ``is_done`` becomes true when the message ends; ``rest`` then holds the bytes after it. ``before_fault`` holds the
    bytes of the body before broken framing, from the same ``feed``. Between two calls at most one unfinished line is
    kept, within ``MAX_OVERHEAD_BYTES``.
    """

    def __init__(self, framing: Framing) -> None:
        self.is_done = framing.length == 0
        self.rest = b""
        self.before_fault = b""
        self._is_chunked = framing.is_chunked
        self._until_close = framing.until_close
        self._is_broken = False
        self._in_trailers = False
        self._left = framing.length or 0
        """The bytes still to come: of the body, or of the current chunk and its CRLF."""
        self._line = bytearray()
        """The beginning of a line that has not ended: of a chunk size, or of a trailer."""
        self._overhead_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Return the body's bytes in ``data`` as one piece, which may be empty.

        Raises HttpSyntaxError when the framing is broken, and at each later call. Bytes after the end are added to
        ``rest``.
        """
        if self.is_done:
            self.rest += data
            return b""
        if self._until_close:
            return data
        if not self._is_chunked:
            return self._read_counted(data)
        if self._is_broken:
            raise HttpSyntaxError("the body's framing was broken before")
        pieces: list[bytes] = []
        try:
            if self._left or self._line or self._in_trailers:
                self._go_on_chunked(data, pieces)
            else:
                self._read_chunks(data, 0, pieces)
        except HttpSyntaxError:
            self._is_broken, self.before_fault = True, b"".join(pieces)
            raise
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def end(self) -> None:
        """Take the close of the peer, which may end the body. Raises HttpSyntaxError when bytes are missing."""
        if not self.is_done and not self._until_close:
            raise HttpSyntaxError("the connection ended within a body")
        self.is_done = True

    def _read_counted(self, data: bytes) -> bytes:
        """Return the bytes of a body whose length is known."""
        left = self._left
        if len(data) < left:
            self._left = left - len(data)
            return data
        self.is_done, self._left, self.rest = True, 0, data[left:]
        return data[:left]

    def _go_on_chunked(self, data: bytes, pieces: list[bytes]) -> None:
        """Read on within a chunk, a line or the trailers."""
        if len(data) <= self._left - 2:
            self._left -= len(data)
            pieces.append(data)
            return
        if self._line:
            if b"\r\n" not in data and not (self._line.endswith(b"\r") and data.startswith(b"\n")):
                self._keep_line(data)
                return
            data = bytes(self._line) + data
            self._line.clear()
        at = self._read_rest_of_chunk(data, 0, pieces) if self._left else 0
        if self._in_trailers:
            self._read_trailers(data, at)
        elif not self._left:
            self._read_chunks(data, at, pieces)

    def _read_chunks(self, data: bytes, at: int, pieces: list[bytes]) -> None:
        """Read chunks and trailers, to the end of ``data`` or of the message."""
        tried = at
        while at < len(data):
            if tried <= at <= len(data) - _WINDOW_BYTES:
                tried = at + _WINDOW_BYTES
                at = _read_small_chunks(data, at, pieces)
            line_end = data.find(b"\r\n", at)
            if line_end < 0:
                self._keep_line(data[at:])
                return
            line = data[at:line_end]
            size = int(line, 16) if _PLAIN_SIZE.fullmatch(line) else self._parse_size_line(line)
            start = line_end + 2
            if not size:
                self._in_trailers = True
                self._read_trailers(data, start)
                return
            stop = start + size
            at = stop + 2
            if data[stop:at] != b"\r\n":
                self._left = size + 2
                self._read_rest_of_chunk(data, start, pieces)
                return
            pieces.append(data[start:stop])

    def _read_rest_of_chunk(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Read the rest of the current chunk and its CRLF, or to the end of ``data``. Return the index after it."""
        body_end = at + max(self._left - 2, 0)
        stop = min(at + self._left, len(data))
        if at < body_end:
            pieces.append(data[at:body_end])
        if not b"\r\n"[max(2 - self._left, 0) :].startswith(data[body_end:stop]):
            raise HttpSyntaxError("a chunk is longer than its size")
        self._left -= stop - at
        return stop

    def _parse_size_line(self, line: bytes) -> int:
        found = _SIZE_LINE.fullmatch(line)
        if found is None:
            raise HttpSyntaxError("a chunk size or chunk extension is malformed")
        self._count_overhead(len(found[2]))
        return int(found[1], 16)

    def _read_trailers(self, data: bytes, at: int) -> None:
        """Read trailers up to the blank line that ends the message. They are counted and dropped."""
        while True:
            line_end = data.find(b"\r\n", at)
            if line_end < 0:
                return self._keep_line(data[at:])
            if line_end == at:
                self.is_done, self.rest = True, data[at + 2 :]
                return None
            if not _TRAILER.fullmatch(data, at, line_end):
                raise HttpSyntaxError("a trailer is malformed")
            self._count_overhead(line_end + 2 - at)
            at = line_end + 2

    def _keep_line(self, more: bytes) -> None:
        """Keep the beginning of a line. Raises HttpSyntaxError when it can't become a valid one."""
        if (more and self._line.endswith(b"\r")) or not _LINE_BEGUN.fullmatch(more):
            raise HttpSyntaxError(
                "a line of the chunks' framing doesn't end in CRLF, or holds control characters"
            )
        self._line += more
        if self._line and not self._in_trailers and not _SIZE_BEGUN.match(self._line, 0, 17):
            raise HttpSyntaxError("a chunk size is malformed")
        # 16 digits and a CR don't count. The rest of the line counts when it ends.
        self._check_overhead(self._overhead_bytes + len(self._line) - 17)

    def _count_overhead(self, count: int) -> None:
        self._overhead_bytes += count
        self._check_overhead(self._overhead_bytes)

    def _check_overhead(self, count: int) -> None:
        if count > MAX_OVERHEAD_BYTES:
            raise HttpSyntaxError("too many bytes of chunk extensions and trailers")
