"""The tokens of workspaces in SQLite. Each function runs inside one transaction and raises ``sqlite3.Error``.

Source of the rule: ``policies.token_bucket``.
"""

import sqlite3

from policies.token_bucket import WINDOW_US, slice_us


def token_wait_us(connection: sqlite3.Connection, workspace: str, limit_rpm: int, now_us: int) -> int:
    """Return in how many µs a token of the bucket is back, 0 when one is there.

    Takes with a time in the future are from before the clock started again. They do not count.
    """
    found = connection.execute(_WINDOW, (now_us - WINDOW_US, workspace, now_us)).fetchone()
    _, total, _, tokens_out = found or _NO_TAKES
    return _wait_us(connection, workspace, limit_rpm, now_us, total) if tokens_out >= limit_rpm else 0


def take_token(connection: sqlite3.Connection, workspace: str, limit_rpm: int, now_us: int) -> int:
    """Take a token and return 0, or return in how many µs one is back."""
    found = connection.execute(_WINDOW, (now_us - WINDOW_US, workspace, now_us)).fetchone()
    newest_us, total, oldest_us, tokens_out = found or _NO_TAKES
    if tokens_out >= limit_rpm:
        return _wait_us(connection, workspace, limit_rpm, now_us, total)
    if newest_us is None or now_us - newest_us >= slice_us(limit_rpm):
        newest_us = now_us
        forget_before_us = now_us if oldest_us is None else oldest_us
        connection.execute(_FORGET, (workspace, forget_before_us, now_us))
    connection.execute(_TAKE, (workspace, newest_us, now_us, total + 1))
    return 0


def _wait_us(connection: sqlite3.Connection, workspace: str, limit_rpm: int, now_us: int, total: int) -> int:
    """Return the wait for the first group that is followed by fewer takes than the limit."""
    within = (workspace, now_us - WINDOW_US, total - limit_rpm)
    (back_at_us,) = connection.execute(_NEXT_BACK, within).fetchone()
    return max(1, int(back_at_us) + WINDOW_US - now_us)


_WINDOW = """
    SELECT newest.began_at_us, newest.total, oldest.began_at_us,
           coalesce(newest.total - oldest.total + oldest.count, 0)
    FROM takes AS newest
    LEFT JOIN takes AS oldest ON oldest.workspace = newest.workspace AND oldest.taken_at_us > ?
    WHERE newest.workspace = ? AND newest.began_at_us <= ?
    ORDER BY newest.began_at_us DESC, oldest.began_at_us LIMIT 1
"""
"""Of the newest group of takes, its start and the total of all takes with it. Of the oldest group whose tokens are not
back yet, its start (NULL without such a group). Last, how many tokens are out."""
_NO_TAKES = (None, 0, None, 0)

_NEXT_BACK = (
    "SELECT taken_at_us FROM takes WHERE workspace = ? AND taken_at_us > ? AND total > ?"
    " ORDER BY began_at_us LIMIT 1"
)
_FORGET = "DELETE FROM takes WHERE workspace = ? AND (began_at_us < ? OR began_at_us > ?)"
_TAKE = """
    INSERT INTO takes (workspace, began_at_us, taken_at_us, count, total) VALUES (?, ?, ?, 1, ?)
    ON CONFLICT (workspace, began_at_us) DO UPDATE
    SET taken_at_us = excluded.taken_at_us, count = count + 1, total = excluded.total
"""
