"""The rate limiter's rule: a bucket of RPM tokens; a call takes one, which comes back 60 s after it was taken.

So never more than RPM calls in any 60 s, and a full burst after an idle minute. Takes are remembered in groups. In a
bucket of up to ``GROUPS`` tokens each take is a group of its own; in a larger one, takes of one ``slice_us`` share a
group and come back together, with the last of them: at most one slice late, never early, in bounded memory.
Source: contract, "Limits" (window); docs/limits.md.
"""

WINDOW_US = 60_000_000
GROUPS = 400
"""Groups per workspace, at some 150 bytes each in Redis: under 64 KiB."""


def slice_us(limit_rpm: int) -> int:
    """Return how long a group takes in takes, from its first on; 0: one take only."""
    return 0 if limit_rpm <= GROUPS else WINDOW_US // GROUPS
