"""Buckets of tokens a minute in SQLite. Each function runs inside one transaction and raises ``sqlite3.Error``.

Source of the rule: ``policies.token_rate``.
"""

import sqlite3
from collections.abc import Sequence

from policies.token_limits import (
    TokenDenial,
    TokenLimit,
    TokenRequest,
    TokensTaken,
    settle_tokens,
    take_tokens,
)
from policies.token_rate import Bucket


def find(
    connection: sqlite3.Connection, asked: TokenRequest, now_ms: int
) -> tuple[list[Bucket], TokensTaken] | TokenDenial:
    """Return what ``take_tokens`` does, without writing it: a call takes nothing unless it is held."""
    return take_tokens(asked, _read(connection, asked.limits), now_ms)


def settle(connection: sqlite3.Connection, taken: TokensTaken, used_tokens: int, now_ms: int) -> None:
    """Replace what a call took by what it used."""
    buckets = settle_tokens(taken, _read(connection, taken.limits), used_tokens, now_ms)
    write(connection, taken.limits, buckets)


def write(connection: sqlite3.Connection, limits: Sequence[TokenLimit], buckets: Sequence[Bucket]) -> None:
    """Write the buckets of limits."""
    rows = [
        (limit.scope, one.level, one.passed, one.at_ms) for limit, one in zip(limits, buckets, strict=True)
    ]
    connection.executemany("REPLACE INTO token_buckets VALUES (?, ?, ?, ?)", rows)


def _read(connection: sqlite3.Connection, limits: Sequence[TokenLimit]) -> list[Bucket]:
    found = [connection.execute(_BUCKET, (limit.scope,)).fetchone() for limit in limits]
    return [Bucket(*numbers) if numbers else Bucket() for numbers in found]


_BUCKET = "SELECT level, passed, at_ms FROM token_buckets WHERE scope = ?"
