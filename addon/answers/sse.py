"""Server-sent events: the bytes of a stream are cut into events, and events into lines. Pure.

Source: WHATWG HTML, "Server-sent events".
"""

import re

DONE_EVENT = b"data: [DONE]\n\n"

# A line end and a blank line. A final \r ends it only when the next byte shows that it isn't half of \r\n.
_EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\n|\r\n|\r(?=[^\n]))")
_EVENT_END_MAX_BYTES = 5  # the longest such ending, with the byte that follows it
_DATA_LINE = re.compile(rb"(?<![^\r\n])(?:\xef\xbb\xbf)?data(?:: ?|(?=[\r\n]|\Z))([^\r\n]*)")
_ERROR_EVENT = re.compile(rb"(?<![^\r\n])(?:\xef\xbb\xbf)?event: ?error[ \t]*(?=[\r\n]|\Z)")
_COMMENT = re.compile(rb"(?<![^\r\n])(?:\xef\xbb\xbf)?(:[^\r\n]*)")
_FIELD_LINE = re.compile(rb"(?<![^\r\n])[^:\r\n]")  # any line but a comment or a blank one


class EventSplitter:
    """Cuts a stream into events. The result is the same for every way of cutting the stream into pieces.

    ``pending`` begins with the next event.
    """

    def __init__(self) -> None:
        self.pending = bytearray()
        self._scanned = 0
        self._has_cr = False

    @property
    def pending_bytes(self) -> int:
        """The size of the event that has not ended yet."""
        return len(self.pending)

    def add(self, piece: bytes) -> None:
        """Add the next bytes of the stream."""
        self.pending += piece
        self._has_cr = self._has_cr or b"\r" in piece

    def find_end(self) -> int:
        """Return where the next event ends, or 0 when its end has not come."""
        if not self._has_cr:  # Nearly every stream; this search is several times as fast.
            end = self.pending.find(b"\n\n", self._scanned) + 2
            if end > 1:
                return end
        elif found := _EVENT_END.search(self.pending, self._scanned):
            return found.end()
        self._scanned = max(0, len(self.pending) - _EVENT_END_MAX_BYTES)
        return 0

    def cut(self, end: int) -> bytes:
        """Return the bytes up to ``end``, and forget them."""
        event = bytes(self.pending[:end])
        del self.pending[:end]
        self._scanned = 0
        return event

    def rest(self) -> bytes:
        """Return the bytes after the last event, and forget them."""
        return self.cut(len(self.pending))

    def clear(self) -> None:
        """Forget all bytes."""
        self.pending.clear()
        self._scanned = 0


def frame(payload: bytes) -> bytes:
    """Return ``payload``, which is one line, as an event."""
    return b"data: " + payload + b"\n\n"


def count_lines(event: bytes) -> int:
    """Return the number of lines of an event, without the blank line at its end."""
    return max(event.count(b"\n"), event.count(b"\r")) - 1


def only_data_line(event: bytes) -> bytes | None:
    """Return the value of the ``data`` line of an event without other lines, after a quick look. Most are like that."""
    end = len(event) - 2
    if event.startswith(b"data: ") and event.find(b"\n") == end and b"\r" not in event:
        return event[6:end]
    return None


def data_lines(event: bytes) -> list[bytes]:
    """Return the values of the ``data`` lines of an event."""
    return _DATA_LINE.findall(event)


def has_data(text: bytes) -> bool:
    """Return whether ``text`` has a ``data`` line."""
    return _DATA_LINE.search(text) is not None


def has_field(text: bytes) -> bool:
    """Return whether ``text`` has a line that is neither blank nor a comment."""
    return _FIELD_LINE.search(text) is not None


def is_error_event(event: bytes) -> bool:
    """Return whether the type of an event is ``error``."""
    return b"event:" in event and _ERROR_EVENT.search(event) is not None


def comments(text: bytes) -> bytes:
    """Return the comments of ``text``, each as an event of its own."""
    return b"".join([comment + b"\n\n" for comment in _COMMENT.findall(text)])
