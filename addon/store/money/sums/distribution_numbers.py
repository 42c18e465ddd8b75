"""The distribution of durations as one number: so many decimal digits for each bucket, the first bucket last. Pure.

PostgreSQL keeps it so. Distributions are added, and compared, like any sum.
"""

import json
import string
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from addon.store.money.sums.rollup_schema import BUCKET_BOUNDS_MS, BUCKETS

BUCKET_DIGITS: Final = 12
_UNITS: Final = {
    letter: 10 ** (BUCKET_DIGITS * bucket) for bucket, letter in enumerate(string.ascii_letters[:BUCKETS])
}
"""The number of one call in each bucket, by the letter of the bucket."""
_REMEMBERED: Final = 1 << 14
"""Most groups have few calls, so the same texts come again."""


@lru_cache(_REMEMBERED)
def number_of_counts(counts: str) -> int:
    """Return the number of a distribution that is JSON: the calls by bucket, ``{"3":2}``."""
    found: Mapping[str, int] = json.loads(counts)
    return sum([count * _unit(bucket) for bucket, count in found.items()])


@lru_cache(BUCKETS)
def _unit(bucket: str) -> int:
    unit: int = 10 ** (BUCKET_DIGITS * int(bucket))
    return unit


@lru_cache(_REMEMBERED)
def number_of_letters(letters: str | None) -> int:
    """Return the number of a text with the letter of each call, in any order. None is the empty text."""
    return sum([_UNITS[one] * letters.count(one) for one in set(letters)]) if letters else 0


def letters_of(duration: str) -> str:
    """Return the SQL of SQLite for a text with the letter of each call. Calls without the duration are not in it."""
    return f"group_concat(iif({duration} IS NULL, NULL, {_letter_of(duration, string.ascii_letters[:BUCKETS])}), '')"


def _letter_of(duration: str, letters: str) -> str:
    """Return the SQL for the letter of a duration, which is one of ``letters``. It compares half of them at a time."""
    if len(letters) == 1:
        return f"'{letters}'"
    lower, upper = letters[: len(letters) // 2], letters[len(letters) // 2 :]
    bound = BUCKET_BOUNDS_MS[string.ascii_letters.index(lower[-1])]
    return f"iif({duration} <= {bound}, {_letter_of(duration, lower)}, {_letter_of(duration, upper)})"
