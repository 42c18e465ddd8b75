"""How long a platform key that its provider turned down is left alone, and which key's turn it is.

A key that answered 401 rests, and each time that it does so again twice as long; one that answered 429 rests as long
as the provider said, or else likewise. A success makes it fresh, any other answer says nothing about it. What fails
while a key rests, or was sent before its rest began, is of the same rest, and what was sent before and succeeds does
not end it. No call is refused for a rest: where all keys rest, the one that is ready soonest is taken. Moments are
readings of one clock, in seconds.
Source: docs/decisions/platform-keys-rotate-and-cool-down.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

REST_S: Final[Mapping[int, tuple[float, float]]] = MappingProxyType({401: (60.0, 600.0), 429: (5.0, 60.0)})
"""By status: how long a first rest is, and how long one is at most."""

LEAST_TOLD_S, MOST_TOLD_S = 1.0, 600.0
"""The bounds of a rest that the provider asked for."""


@dataclass(frozen=True, slots=True)
class KeyRest:
    """Until when a key rests, the status that it rests for, and which rest in a row for that status it is."""

    until_s: float = float("-inf")
    status: int = 0
    times: int = 0

    def lasts(self, now_s: float) -> bool:
        """Whether the key rests."""
        return now_s < self.until_s


FRESH: Final = KeyRest()


def after_answer(
    rest: KeyRest, now_s: float, status: int, told_s: float | None = None, *, was_sent_before: bool = False
) -> KeyRest:
    """Return what becomes of a key's rest once a call with that key was answered with ``status``.

    ``told_s`` is how long the provider asks to be left alone. ``was_sent_before``: the call was, before the rest began.
    """
    if status < 400:
        return rest if was_sent_before else FRESH
    if status not in REST_S:
        return rest
    told_s = told_s if status == 429 else None
    if status != rest.status:
        times = 1
    elif rest.lasts(now_s) and told_s is None:
        return rest
    else:
        is_another = not rest.lasts(now_s) and not was_sent_before
        times = rest.times + 1 if is_another else rest.times
    until_s = now_s + (_length_s(status, times) if told_s is None else _bounded(told_s))
    # A shorter rest ends inside the longer one.
    return rest if until_s <= rest.until_s else KeyRest(until_s, status, times)


def next_key(rests: Sequence[KeyRest], turn: int, now_s: float) -> int:
    """Return the index of the key to take: from ``turn`` on the first that does not rest, else the one ready soonest.

    ``rests`` has one key at least. Who takes the index plus one for the next ``turn`` takes them round robin.
    """
    count = len(rests)
    in_turn = [(turn + step) % count for step in range(count)]
    soonest = min(in_turn, key=lambda at: rests[at].until_s)
    return next((at for at in in_turn if not rests[at].lasts(now_s)), soonest)


def _bounded(told_s: float) -> float:
    return min(max(told_s, LEAST_TOLD_S), MOST_TOLD_S)


def _length_s(status: int, times: int) -> float:
    first_s, longest_s = REST_S[status]
    # Beyond 2³⁰ times the first nothing grows any more, whatever the numbers above become.
    return min(first_s * 2.0 ** min(times - 1, 30), longest_s)
