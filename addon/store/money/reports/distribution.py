"""Percentiles of durations that are counted in buckets. Pure.

Source: docs/ledger.md, "The table rollups".
"""

import json
from collections import Counter
from collections.abc import Mapping

from addon.store.money.sums.rollup_schema import BUCKET_BOUNDS_MS


def add_buckets(counts: Counter[int], listed: str | None) -> None:
    """Add calls to the counts of their buckets.

    ``listed`` is as the database lists them, with commas between: objects of counts (``{"12":3}``), and the buckets of
    single calls (``12``). None is an empty list.
    """
    for one in json.loads(f"[{listed}]") if listed else ():
        if isinstance(one, int):
            counts[one] += 1
        else:
            for bucket, count in one.items():
                counts[int(bucket)] += count


def find_percentile(counts: Mapping[int, int], percent: int) -> int | None:
    """Return the duration in ms that ``percent`` of the calls do not exceed, None without calls.

    The result is read within its bucket as if the calls there were evenly spread. It and the exact nearest-rank
    percentile are in the same bucket: so it is at most a factor of √2 off, and up to 4 ms at most 4 ms. In the last
    bucket, which has no upper bound, it is the lower one.
    """
    total = sum(counts.values())
    if total <= 0:
        return None
    rank, before = max(1, -(-total * percent // 100)), 0
    for bucket in sorted(counts):
        count = counts[bucket]
        if before + count >= rank:
            return _interpolate(bucket, rank - before, count)
        before += count
    raise AssertionError("the rank is at most the total")


def _interpolate(bucket: int, place: int, count: int) -> int:
    """Return the duration of the call at ``place`` of ``count``, from 1, in a bucket."""
    lower = BUCKET_BOUNDS_MS[bucket - 1] if bucket else 0
    if bucket == len(BUCKET_BOUNDS_MS):
        return lower
    return lower + -(-(BUCKET_BOUNDS_MS[bucket] - lower) * place // count)
