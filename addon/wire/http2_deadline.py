"""``Http2Deadline``: when an HTTP/2 connection closes if nothing happens until then."""

import asyncio
from collections.abc import Callable

from addon.runtime.deadline import MovableDeadline
from addon.wire.connection import WireSettings


class Http2Deadline:
    """The one timer of a connection. A header block on its way counts first, then open streams, then idleness."""

    def __init__(self, settings: WireSettings, on_expired: Callable[[], None]) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._timer = MovableDeadline(on_expired)
        self._head_since_s: float | None = None
        self._idle_since_s = self._loop.time()
        self._has_had_request = False

    @property
    def is_in_head(self) -> bool:
        """Whether a header block has begun and not ended."""
        return self._head_since_s is not None

    def note_request(self) -> None:
        """Count later idle time as time between two requests."""
        self._has_had_request = True

    def note_idle(self) -> None:
        """Count idle time from now on."""
        self._idle_since_s = self._loop.time()

    def note_head(self, *, is_in_head: bool, has_new: bool) -> None:
        """Count the time of a header block. With ``has_new``, an earlier one ended and this is another."""
        if not is_in_head:
            self._head_since_s = None
        elif self._head_since_s is None or has_new:
            self._head_since_s = self._loop.time()

    def schedule(self, progress_at_s: float | None) -> None:
        """Set the timer. ``progress_at_s``: when the client last read something, or None when no stream is open."""
        settings = self._settings
        if self._head_since_s is not None:
            due_s = self._head_since_s + settings.head_timeout_s
        elif progress_at_s is not None:
            due_s = progress_at_s + settings.write_timeout_s
        elif self._has_had_request:
            due_s = self._idle_since_s + settings.idle_timeout_s
        else:
            due_s = self._idle_since_s + settings.head_timeout_s
        self._timer.set(due_s - self._loop.time())

    def set(self, seconds: float) -> None:
        """Set the timer to expire in ``seconds``."""
        self._timer.set(seconds)

    def close(self) -> None:
        """Stop the timer for good."""
        self._timer.close()
