"""Whether a failed attempt is made once more at the same place, where no other one may follow. Pure.

Only failures that the vendor surely does not bill are retried. A timeout, a 408, 502 or 504, and a connection that
broke after the request was sent may each be an answer that was made and is charged. Source: docs/routing.md, "Retries".
"""

from typing import Final

LEAST_WAIT_S, MOST_WAIT_S = 0.2, 1.0
"""The bounds of a wait that the vendor does not set."""
MOST_ADVISED_WAIT_S: Final = 2
"""The longest wait that a vendor may ask for. A longer one is the client's to decide."""

_STATUSES: Final = frozenset({429, 500, 503, 529})


def find_retry_wait_s(
    status: int | None, *, is_sent: bool, after_s: int | None, should_retry: bool | None, chance: float
) -> float | None:
    """Return how long to wait before another try, in seconds; None for no other try.

    ``status`` is the vendor's, None where no answer came. ``is_sent``: the vendor may have the request. ``after_s`` and
    ``should_retry`` are its advice. ``chance`` from 0 to 1 spreads the tries of many calls.
    """
    is_harmless = status in _STATUSES or (status is None and not is_sent)
    if not is_harmless or should_retry is False:
        return None
    if after_s is not None:
        return float(after_s) if after_s <= MOST_ADVISED_WAIT_S else None
    return LEAST_WAIT_S + chance * (MOST_WAIT_S - LEAST_WAIT_S)
