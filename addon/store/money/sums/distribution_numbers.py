"""The distribution of durations as one number: so many decimal digits for each bucket, the first bucket last. Pure.

PostgreSQL keeps it so. Distributions are added, and compared, like any sum.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from addon.store.money.sums.rollup_schema import BUCKETS

BUCKET_DIGITS: Final = 12
_UNITS: Final = {str(bucket): 10 ** (BUCKET_DIGITS * bucket) for bucket in range(BUCKETS)}
"""The number of one call in each bucket."""
_REMEMBERED: Final = 1 << 14
"""Most groups have few calls, so the same texts come again."""


@lru_cache(_REMEMBERED)
def number_of_counts(counts: str) -> int:
    """Return the number of a distribution that is JSON: the calls by bucket, ``{"3":2}``."""
    found: Mapping[str, int] = json.loads(counts)
    return sum(count * 10 ** (BUCKET_DIGITS * int(bucket)) for bucket, count in found.items())


@lru_cache(_REMEMBERED)
def number_of_buckets(buckets: str | None) -> int:
    """Return the number of a list with the bucket of each call, ``3,3``. None is the empty list."""
    return sum(map(_UNITS.__getitem__, buckets.split(","))) if buckets else 0
