"""``DateField``: the field ``Date`` of answers, made once a second."""

from email.utils import formatdate

from addon.runtime.clock import Clock
from addon.text.http_heads import Field


class DateField:
    """The field ``Date``. Source: RFC 9110, 6.6.1: a server with a clock sends it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._field = ("date", "")
        self._until_s = float("-inf")

    def now(self) -> Field:
        """Return the field as it is in this second."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._until_s:
            at_s = self._clock.now().timestamp()
            self._field = ("date", formatdate(int(at_s), usegmt=True))
            self._until_s = now_s + 1 - at_s % 1
        return self._field
