"""Server-sent events: the bytes of a stream are cut into events, and events into lines. Pure.

Source: WHATWG HTML, "Server-sent events".
"""

import re

DONE_EVENT = b"data: [DONE]\n\n"

_DATA_LINE = re.compile(rb"(?<![^\n])(?:\xef\xbb\xbf)?data(?:: ?|(?=\n|\Z))([^\n]*)")
_ERROR_EVENT = re.compile(rb"(?<![^\n])(?:\xef\xbb\xbf)?event: ?error[ \t]*(?=\n|\Z)")
_COMMENT = re.compile(rb"(?<![^\n])(?:\xef\xbb\xbf)?(:[^\n]*)")
_FIELD_LINE = re.compile(rb"(?<![^\n])[^:\n]")  # any line but a comment or a blank one
MAX_EVENT_LINES = 1_000

_COMMENT_EVENTS = re.compile(rb"(?:(?::[^\n]*+\n){1,%d}+\n)++" % MAX_EVENT_LINES)
_BLANK_LINES = re.compile(rb"\n{3,}")


class EventSplitter:
    """Cuts a stream into events. The result is the same for every way of cutting the stream into pieces.

    Its events have ``\\n`` at the end of each line, whatever the stream has, and one blank line at their end.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        """The beginning of the next event."""
        self._scanned = 0
        self.is_between_events = True
        """The next byte begins an event."""
        self._has_cr = False
        """The last byte was \\r. It may be half of a line end."""

    @property
    def pending_bytes(self) -> int:
        """The size of the event that has not ended yet."""
        return len(self._pending)

    def add(self, piece: bytes) -> bytes:
        """Add the next bytes of the stream. Return the events that have ended."""
        if self._has_cr or b"\r" in piece:
            piece = self._with_plain_ends(piece)
        pending = self._pending
        if not pending:
            piece = piece.lstrip(b"\n")
        pending += piece
        end = pending.rfind(b"\n\n", self._scanned) + 2
        if end < 2:
            self._scanned = max(0, len(pending) - 1)
            self.is_between_events = not pending and not self._has_cr
            return b""
        events = bytes(pending[:end])
        del pending[:end]
        self._scanned = 0
        self.is_between_events = not pending and not self._has_cr
        return _BLANK_LINES.sub(b"\n\n", events) if b"\n\n\n" in events else events

    def rest(self) -> bytes:
        """Return the bytes after the last event, and forget them."""
        rest = bytes(self._pending) + (b"\n" if self._has_cr else b"")
        self.clear()
        return rest

    def clear(self) -> None:
        """Forget all bytes."""
        self._pending.clear()
        self._scanned, self._has_cr, self.is_between_events = 0, False, True

    def _with_plain_ends(self, piece: bytes) -> bytes:
        """Return ``piece`` with \\n as its only line end. A \\r at its end waits for the next byte."""
        if self._has_cr:
            piece = b"\r" + piece
        self._has_cr = piece.endswith(b"\r")
        if self._has_cr:
            piece = piece[:-1]
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def frame(payload: bytes) -> bytes:
    """Return ``payload``, which is one line, as an event."""
    return b"data: " + payload + b"\n\n"


def count_lines(event: bytes) -> int:
    """Return the number of lines of an event, without the blank line at its end."""
    return event.count(b"\n") - 1


def only_data_line(event: bytes) -> bytes | None:
    """Return the value of the ``data`` line of an event without other lines, after a quick look. Most are like that."""
    end = len(event) - 2
    if event.startswith(b"data: ") and event.find(b"\n") == end:
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


def find_comments_end(events: bytes, at: int) -> int:
    """Return where the comments end that begin at ``at``, the lines of whole events. Return ``at`` for none."""
    found = _COMMENT_EVENTS.match(events, at)
    return found.end() if found else at


def separate_comments(text: bytes) -> bytes:
    """As ``comments``, for a text that ``find_comments_end`` has found. It takes a twentieth of the time."""
    return text.replace(b"\n\n", b"\n").replace(b"\n", b"\n\n")


def comments(text: bytes) -> bytes:
    """Return the comments of ``text``, each as an event of its own."""
    found = _COMMENT.findall(text)
    return b"\n\n".join(found) + b"\n\n" if found else b""
