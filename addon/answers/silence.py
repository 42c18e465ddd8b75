"""What a stream sends without content: comments, empty events, chunks that show nothing. Pure."""

from typing import Final

MAX_SILENT_BYTES: Final = 1024 * 1024
"""How much a stream may send since its last content."""
MAX_EVENTS: Final = 16
MAX_EVENT_BYTES: Final = 256


class Silence:
    """How much a stream has sent since its last content, and the events that gave the client nothing.

    ``events``: the last ``MAX_EVENTS``, each of at most ``MAX_EVENT_BYTES``. When they come again, they need no look at
    once. Those that are true only set something, such as the usage: they wait in ``waiting``, where the last of each
    counts, until something else comes.
    """

    def __init__(self) -> None:
        self.events: dict[bytes, bool] = {}
        self.waiting: dict[bytes, None] = {}
        """In the order in which each came last."""
        self.bytes = 0
        """How much was sent since the last content."""
        self._kept_chars = 0

    def add(self, event: bytes, *, only_sets: bool = False) -> bytes:
        """Remember ``event``, and return what the client gets for it: nothing."""
        if len(event) <= MAX_EVENT_BYTES:
            self.events[event] = only_sets
            if len(self.events) > MAX_EVENTS:
                del self.events[next(iter(self.events))]
        return b""

    def take_waiting(self) -> list[bytes]:
        """Return the events that wait, and forget that they do."""
        waiting = list(self.waiting)
        self.waiting.clear()
        return waiting

    def is_too_long(self, more_bytes: int, kept_chars: int) -> bool:
        """Count bytes without content. Return whether the stream has sent too many.

        ``kept_chars`` is the length of all content that was kept for a later chunk: what is new of it is no silence.
        """
        self.bytes = max(0, self.bytes + more_bytes - (kept_chars - self._kept_chars))
        self._kept_chars = kept_chars
        return self.bytes > MAX_SILENT_BYTES
