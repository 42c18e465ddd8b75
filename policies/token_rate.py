"""The rule of tokens a minute: a bucket that drains as much in a minute as it holds, all of it without a pause. Pure.

A take puts into the bucket what a call may use, if there is room. At the call's end, what it used replaces that: as a
debt if it is more, which no limit refuses, or as a credit. A take that is never settled has drained after a minute.

What is in a bucket lies in a line: what came first leaves first. So a credit is at most what has not left it yet of
its own take; the rest has made room already, and to give it back would make the same room twice. A store keeps only
how much is in the line and how much has left it, because the end of the line at a take says where the take lies.

Amounts are integers in units of 1/60,000 token, of which a bucket drains ``tpm`` in a millisecond: nothing is rounded.
So takes and debts within w seconds are at most ``tpm`` × (1 + w / 60) tokens, and what calls used beyond their takes.
"""

from typing import Final

from msgspec import Struct

WINDOW_MS: Final = 60_000
"""How long a full bucket drains, in ms; also the units in a token."""
MAX_TPM: Final = 1_000_000_000
"""The largest limit. All amounts of its bucket are exact in the numbers of Redis, which have 53 bits."""
MAX_WINDOWS: Final = 60
"""A debt counts as at most so many minutes' tokens: a wrong count of a provider must not block for days."""


KEPT_EMPTY_MS: Final = WINDOW_MS + 1_000
"""How long a store keeps a bucket after it has drained: for as long as a take of it may be given back."""


class Bucket(Struct, frozen=True, gc=False):
    """A bucket at ``at_ms``. ``level`` units are in it, ``passed`` have left it so far: drained, or given back."""

    level: int = 0
    passed: int = 0
    at_ms: int = 0


class Take(Struct, frozen=True, gc=False):
    """What a call took from one bucket. ``end`` is the end of the line then, in units since the line began."""

    tokens: int
    end: int
    at_ms: int


def drain(bucket: Bucket, tpm: int, now_ms: int) -> Bucket:
    """Return the bucket at ``now_ms``. While the clock is behind ``at_ms``, nothing drains.

    A line that nothing has changed for a minute begins anew: no take of it can be given back any more.
    """
    elapsed_ms = max(0, now_ms - bucket.at_ms)
    drained = min(bucket.level, elapsed_ms * tpm)
    if drained == bucket.level and elapsed_ms >= WINDOW_MS:
        return Bucket(at_ms=now_ms)
    return Bucket(bucket.level - drained, bucket.passed + drained, now_ms)


def find_wait_ms(drained: Bucket, tpm: int, tokens: int) -> int:
    """Return in how many ms a drained bucket has room for ``tokens``, 0 if it has now. They are at most ``tpm``."""
    return max(0, -(((tpm - tokens) * WINDOW_MS - drained.level) // tpm))


def take(drained: Bucket, tokens: int) -> tuple[Bucket, Take]:
    """Put ``tokens`` into a drained bucket that has room for them."""
    level = drained.level + tokens * WINDOW_MS
    after = Bucket(level, drained.passed, drained.at_ms)
    return after, Take(tokens, level + drained.passed, drained.at_ms)


def settle(drained: Bucket, tpm: int, taken: Take, used_tokens: int) -> Bucket:
    """Return a drained bucket in which what a call used has replaced what it took, as far as that is still there."""
    level, passed, now_ms = drained.level, drained.passed, drained.at_ms
    more = (used_tokens - taken.tokens) * WINDOW_MS
    if more >= 0:
        most = max(level, MAX_WINDOWS * tpm * WINDOW_MS)
        return Bucket(min(level + more, most), passed, now_ms)
    credit = min(-more, _find_left(drained, taken))
    return Bucket(level - credit, passed + credit, now_ms)


def _find_left(drained: Bucket, taken: Take) -> int:
    """Return how much of a take has not left the bucket: nothing after a minute, or where the bucket was forgotten."""
    is_forgotten = taken.end > drained.passed + drained.level
    if is_forgotten or drained.at_ms - taken.at_ms >= WINDOW_MS:
        return 0
    return min(taken.tokens * WINDOW_MS, max(0, taken.end - drained.passed))
