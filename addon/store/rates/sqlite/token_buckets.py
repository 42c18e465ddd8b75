"""Buckets of tokens and requests a minute in SQLite, for steps inside one transaction.

Source of the rule: ``policies.token_rate``. A value of a budget has a row from its first call on, until a new value
finds that the row limits nothing any more. So a budget has at most ``MAX_VALUES`` rows for each of its rates; a value
without a row shares one with all others then.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import structs

from policies.budgets import MAX_VALUES, values_range
from policies.token_limits import (
    TokenDenial,
    TokenLimit,
    TokenRequest,
    TokensTaken,
    find_excess,
    settle_tokens,
    share_limit,
    take_tokens,
)
from policies.token_rate import KEPT_EMPTY_MS, Bucket

SWEEP_PAUSE_MS: Final = 60_000
"""How long after a look for rows that are over a new value looks again. To look at 10,000 takes some ms."""
FULL_PAUSE_MS: Final = 1_000
"""The same where there was no room: until then, further values share a bucket."""


class TokenBuckets:
    """The buckets of a file. Each method runs inside one transaction and raises ``sqlite3.Error``."""

    def __init__(self) -> None:
        self._swept: dict[str, tuple[int, bool]] = {}
        """When rows of a rate were last looked for that are over, and whether all were needed, by their first scope."""

    def find(
        self, connection: sqlite3.Connection, asked: TokenRequest, now_ms: int
    ) -> tuple[list[Bucket], TokensTaken] | TokenDenial:
        """Return what ``take_tokens`` does, without writing it: a call takes nothing unless it is held."""
        if denied := find_excess(asked):
            return denied
        limits, buckets = self._read(connection, asked.limits, now_ms)
        return take_tokens(structs.replace(asked, limits=limits), buckets, now_ms)

    def settle(
        self, connection: sqlite3.Connection, taken: TokensTaken, used_tokens: int | None, now_ms: int
    ) -> None:
        """Replace what a call took by what it used, ``used_tokens`` as in ``find_used``."""
        limits, buckets = self._read(connection, taken.limits, now_ms)
        taken = structs.replace(taken, limits=limits)
        write_buckets(connection, limits, settle_tokens(taken, buckets, used_tokens, now_ms))

    def _read(
        self, connection: sqlite3.Connection, limits: Sequence[TokenLimit], now_ms: int
    ) -> tuple[tuple[TokenLimit, ...], list[Bucket]]:
        """Return the limits with the buckets that they have. A new value may have to share one.

        A bucket with a time in the future is from before the clock started again. It does not count.
        """
        found, buckets = [], []
        for asked in limits:
            limit, row = asked, _select(connection, asked)
            is_new = row is None and limit.shared_scope is not None
            if is_new and not self._has_room(connection, limit, now_ms):
                limit = share_limit(limit)
                row = _select(connection, limit)
            found.append(limit)
            buckets.append(Bucket(*row) if row and row[2] <= now_ms else Bucket())
        return tuple(found), buckets

    def _has_room(self, connection: sqlite3.Connection, limit: TokenLimit, now_ms: int) -> bool:
        """Return whether a budget may get one more row. Remove those that are over, unless that was done just now."""
        values = values_range(limit.scope)
        swept_ms, was_full = self._swept.get(values[0], (-SWEEP_PAUSE_MS, False))
        if was_full and now_ms - swept_ms < FULL_PAUSE_MS:
            return False
        count = _count(connection, values)
        if count >= MAX_VALUES or now_ms - swept_ms >= SWEEP_PAUSE_MS:
            connection.execute(_FORGET, (*values, now_ms, limit.per_minute, KEPT_EMPTY_MS, now_ms))
            count = _count(connection, values)
            self._swept[values[0]] = now_ms, count >= MAX_VALUES
        return count < MAX_VALUES


def write_buckets(
    connection: sqlite3.Connection, limits: Iterable[TokenLimit], buckets: Iterable[Bucket]
) -> None:
    """Write the buckets of limits, but none that is as if there were none."""
    rows = [
        (limit.scope, one.level, one.passed, one.at_ms)
        for limit, one in zip(limits, buckets, strict=True)
        if one.level or one.passed
    ]
    connection.executemany("REPLACE INTO token_buckets VALUES (?, ?, ?, ?)", rows)


def _select(connection: sqlite3.Connection, limit: TokenLimit) -> tuple[int, int, int] | None:
    row: tuple[int, int, int] | None = connection.execute(_BUCKET, (limit.scope,)).fetchone()
    return row


def _count(connection: sqlite3.Connection, values: tuple[str, str]) -> int:
    (count,) = connection.execute(_COUNT, values).fetchone()
    return int(count)


_BUCKET = "SELECT level, passed, at_ms FROM token_buckets WHERE scope = ?"
_COUNT = "SELECT count(*) FROM token_buckets WHERE scope >= ? AND scope < ?"
_FORGET = (
    "DELETE FROM token_buckets WHERE scope >= ? AND scope < ? AND (at_ms > ? OR at_ms + level / ? + ? < ?)"
)
"""Division rounds down, so a row is kept a millisecond longer than its time in ``policies.token_rate``."""
