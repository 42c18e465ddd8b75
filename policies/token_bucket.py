"""The rule of the rate limiter: a bucket of RPM tokens. Each call takes one, which comes back after 60 s.

So there are never more than RPM calls in any 60 s, and a full burst is possible after an idle minute. A store keeps
takes in groups, so that its memory is bounded:

| bucket | one group | its tokens come back |
|---|---|---|
| up to ``GROUPS`` tokens | one take | 60 s after the take |
| more | the takes within ``slice_us`` | together, 60 s after the last one: at most one slice late, and never early |

Source: contract, "Limits" (window); docs/limits.md.
"""

WINDOW_US = 60_000_000
GROUPS = 400
"""The most groups of one workspace. Each takes some 150 bytes in Redis, so all are under 64 KiB."""


def slice_us(limit_rpm: int) -> int:
    """Return how long after its first take a group is open for more takes. 0: it has one take only."""
    return 0 if limit_rpm <= GROUPS else WINDOW_US // GROUPS
