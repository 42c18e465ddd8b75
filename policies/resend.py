"""Whether a request may be sent again, and how long connections may wait for the next one. Pure.

A provider may close an idle connection at the moment at which a request is sent on it. Such a request was not read, so
it is sent once more. A provider that read it may have begun to work, and asks for its price.
"""

from typing import Final

from msgspec import Struct

MAX_RESENDS: Final = 1
"""Of one call, all its attempts together."""
MAX_ROUND_TRIP_S: Final = 0.25
MARGIN_S: Final = 0.02
"""The time that a provider's machine may take to refuse a request, beside the time on the way."""
LEAST_IDLE_S: Final = 2.0


class LostRequest(Struct, frozen=True):
    """A request whose connection ended.

    | field | is |
    |---|---|
    | ``by_provider`` | the provider, or the network, ended the connection, not this process |
    | ``is_reused`` | the connection had served another request before |
    | ``is_answered`` | a byte of an answer was read |
    | ``is_written`` | the kernel had the whole request |
    | ``is_early`` | it ended within ``compute_window_s`` of the first write |
    """

    by_provider: bool
    is_reused: bool
    is_answered: bool
    is_written: bool
    is_early: bool

    @property
    def is_stale(self) -> bool:
        """Whether the provider closed the connection while it was idle, so it can't have begun to work."""
        was_idle = self.by_provider and self.is_reused and not self.is_answered
        return was_idle and (self.is_early or not self.is_written)


def may_send_again(lost: LostRequest, resends: int) -> bool:
    """Return whether ``lost`` may be sent again, after so many ``resends`` of its call."""
    return lost.is_stale and resends < MAX_RESENDS


def compute_window_s(round_trip_s: float | None) -> float:
    """Return how long after its first write a request may be lost unread: the way there and back, twice.

    Once for the request and the reset that answers it, once for what the network adds.
    """
    return 2 * min(round_trip_s or 0.0, MAX_ROUND_TRIP_S) + MARGIN_S


def halve_idle_bound_s(bound_s: float, idled_s: float) -> float:
    """Return the next idle bound of an origin that closed a connection after ``idled_s`` without a request.

    A connection that idled for longer than the bound says nothing new.
    """
    return bound_s if idled_s > bound_s else max(bound_s / 2, min(bound_s, LEAST_IDLE_S))
