"""What a stream sends without content: comments, empty events, chunks that show nothing. Pure."""

from typing import Final

MAX_SILENT_BYTES: Final = 1024 * 1024
"""How much a stream may send since its last content."""
MAX_EVENTS: Final = 16
MAX_EVENT_BYTES: Final = 256


class Silence:
    """How much a stream has sent since its last content, and the events that said nothing.

    ``events``: at most ``MAX_EVENTS``, each of at most ``MAX_EVENT_BYTES``. When they come again, they need no look.
    """

    def __init__(self) -> None:
        self.events = set[bytes]()
        self.bytes = 0
        """How much was sent since the last content."""

    def add(self, event: bytes) -> bytes:
        """Remember ``event``, and return what the client gets for it: nothing."""
        if len(self.events) < MAX_EVENTS and len(event) <= MAX_EVENT_BYTES:
            self.events.add(event)
        return b""

    def is_too_long(self, more_bytes: int) -> bool:
        """Count bytes without content. Return whether the stream has sent too many."""
        self.bytes += more_bytes
        return self.bytes > MAX_SILENT_BYTES
