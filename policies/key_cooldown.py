"""The cooldown of a platform key that its provider rejected, and the choice of the next key.

| a call with the key is answered with | the key |
|---|---|
| 401 | rests, each further time twice as long |
| 429 | rests as long as the provider says, or else like after a 401 |
| a status below 400 | is ready again |
| any other status | stays as it is |

A failure during a cooldown, or of a call that was sent before it began, belongs to that cooldown. A success of such a
call does not end it. No call is refused because of a cooldown: where all keys rest, the one that is ready first is
used. Times are readings of one clock, in seconds.
Source: docs/decisions/platform-keys-rotate-and-cool-down.md.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from policies.affinity import Distance

COOLDOWN_S: Final[Mapping[int, tuple[float, float]]] = MappingProxyType(
    {401: (60.0, 600.0), 429: (5.0, 60.0)}
)
"""By status: the length of a first cooldown, and the greatest length."""

MIN_RETRY_AFTER_S, MAX_RETRY_AFTER_S = 1.0, 600.0
"""The bounds of a cooldown whose length the provider sets."""


@dataclass(frozen=True, slots=True)
class Cooldown:
    """The end of a key's cooldown, the status that caused it, and its number in a row for that status."""

    until_s: float = float("-inf")
    status: int = 0
    times: int = 0

    def is_active(self, now_s: float) -> bool:
        """Return whether the key rests."""
        return now_s < self.until_s


READY: Final = Cooldown()


def after_answer(
    cooldown: Cooldown,
    now_s: float,
    status: int,
    retry_after_s: float | None = None,
    *,
    was_sent_before: bool = False,
) -> Cooldown:
    """Return the cooldown of a key after a call with it was answered with ``status``.

    ``retry_after_s`` is the wait that the provider asks for. ``was_sent_before``: the call was sent before the cooldown
    began.
    """
    if status < 400:
        return cooldown if was_sent_before else READY
    if status not in COOLDOWN_S:
        return cooldown
    retry_after_s = retry_after_s if status == 429 else None
    if status != cooldown.status:
        times = 1
    elif cooldown.is_active(now_s) and retry_after_s is None:
        return cooldown
    else:
        is_another = not cooldown.is_active(now_s) and not was_sent_before
        times = cooldown.times + 1 if is_another else cooldown.times
    until_s = now_s + (_length_s(status, times) if retry_after_s is None else _bounded(retry_after_s))
    # A cooldown that would end earlier changes nothing.
    return cooldown if until_s <= cooldown.until_s else Cooldown(until_s, status, times)


def choose_index(until_s: Sequence[float], distances: Sequence[Distance], now_s: float) -> int:
    """Return the index of the nearest key that does not rest; else of the key that is ready first.

    There is at least one key. ``until_s`` are the ends of their rests, and ``distances`` as of ``affinity.distance``.
    """

    def rank(index: int) -> tuple[float, Distance]:
        return until_s[index] if until_s[index] > now_s else -math.inf, distances[index]

    return min(range(len(until_s)), key=rank)


def _bounded(retry_after_s: float) -> float:
    return min(max(retry_after_s, MIN_RETRY_AFTER_S), MAX_RETRY_AFTER_S)


def _length_s(status: int, times: int) -> float:
    first_s, longest_s = COOLDOWN_S[status]
    # The exponent is bounded, so that the power never overflows, whatever the table above says.
    return min(first_s * 2.0 ** min(times - 1, 30), longest_s)
