"""The steps of ``SqliteStore`` on its tables. Each function runs inside one transaction.

All raise ``sqlite3.Error``. Source of the rules: ``policies.token_bucket``, ``policies.limits``, ``policies.spend``.
"""

import json
import sqlite3
from collections.abc import Iterable
from datetime import datetime, timedelta

from addon.store.ledger.migrations import count_statement
from addon.store.ledger.rows import iso, write_call, write_entry
from addon.store.protocol import LEASE_S, HoldRequest, Settlement, WalletEntry
from policies.limits import LIMITS_OF_KEYS, Limit, counters_of, period_end, period_start, wallet_counter
from policies.spend import CounterUse, Denial, Hold, place_hold
from policies.token_bucket import WINDOW_US, slice_us

# The limiter.


def token_wait_us(connection: sqlite3.Connection, workspace: str, limit_rpm: int, now_us: int) -> int:
    """Return in how many µs a token of the bucket is back, 0 when one is there.

    Takes with a time in the future are from before the clock started again. They do not count.
    """
    newest, oldest = _window(connection, workspace, now_us)
    return (
        _wait_us(connection, workspace, limit_rpm, now_us, newest)
        if _tokens_out(newest, oldest) >= limit_rpm
        else 0
    )


def take_token(connection: sqlite3.Connection, workspace: str, limit_rpm: int, now_us: int) -> int:
    """Take a token and return 0, or return in how many µs one is back."""
    newest, oldest = _window(connection, workspace, now_us)
    if _tokens_out(newest, oldest) >= limit_rpm:
        return _wait_us(connection, workspace, limit_rpm, now_us, newest)
    joins = newest is not None and now_us - newest[0] < slice_us(limit_rpm)
    began_at_us, total = (newest[0] if joins else now_us, newest[1]) if newest else (now_us, 0)
    if not joins:
        connection.execute(_FORGET, (workspace, oldest[0] if oldest else now_us, now_us))
    connection.execute(_TAKE, (workspace, began_at_us, now_us, total + 1))
    return 0


type _Group = tuple[int, int, int]
"""A group of takes: its start, the total of all takes including it, and its count."""

_GROUPS = "SELECT began_at_us, total, count FROM takes WHERE workspace = ?"
_NEWEST = f"{_GROUPS} AND began_at_us <= ? ORDER BY began_at_us DESC LIMIT 1"
_OLDEST = f"{_GROUPS} AND taken_at_us > ? ORDER BY began_at_us LIMIT 1"
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


def _window(
    connection: sqlite3.Connection, workspace: str, now_us: int
) -> tuple[_Group | None, _Group | None]:
    """Return the newest group, and the oldest group whose tokens are not back yet."""
    newest = connection.execute(_NEWEST, (workspace, now_us)).fetchone()
    oldest = newest and connection.execute(_OLDEST, (workspace, now_us - WINDOW_US)).fetchone()
    return newest, oldest


def _tokens_out(newest: _Group | None, oldest: _Group | None) -> int:
    return newest[1] - oldest[1] + oldest[2] if newest and oldest else 0


def _wait_us(
    connection: sqlite3.Connection, workspace: str, limit_rpm: int, now_us: int, newest: _Group | None
) -> int:
    """Return the wait for the first group that is followed by fewer takes than the limit."""
    total = newest[1] if newest else 0
    within = (workspace, now_us - WINDOW_US, total - limit_rpm)
    (back_at_us,) = connection.execute(_NEXT_BACK, within).fetchone()
    return max(1, int(back_at_us) + WINDOW_US - now_us)


# Holds.


def hold(connection: sqlite3.Connection, request: HoldRequest, owner: str, now: datetime) -> Hold | Denial:
    """Place the hold that ``policies.spend`` allows, or return its denial."""
    if placed := connection.execute(_PLACED, (request.id,)).fetchone():
        return Hold(*placed)
    return _place(connection, request, owner, now)


def move_hold(
    connection: sqlite3.Connection, request: HoldRequest, owner: str, now: datetime
) -> Hold | Denial | None:
    """Replace the call's hold by the one that is allowed, or keep it. Return None when ``owner`` holds no such call."""
    held = connection.execute(_HELD_ROW, (request.id, owner)).fetchone()
    if held is None:
        return None
    if held == (json.dumps(request.interrupted_row),):
        return Hold(*connection.execute(_PLACED, (request.id,)).fetchone())
    return _place(connection, request, owner, now)


def _place(connection: sqlite3.Connection, request: HoldRequest, owner: str, now: datetime) -> Hold | Denial:
    by_counter = {
        limit.counter: read_used(connection, limit, request.workspace, request.key_id, except_id=request.id)
        for limit in request.limits
    }
    decided = place_hold(request.max_cost, request.limits, by_counter)
    if isinstance(decided, Hold):
        # For people who read the table. The owner's lock decides.
        expires_at = iso(now + timedelta(seconds=LEASE_S))
        connection.execute(
            "INSERT OR REPLACE INTO holds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                request.id,
                request.interrupted_row["created_at"],
                expires_at,
                request.workspace,
                request.key_id,
                decided.amount_nanousd,
                owner,
                decided.cap_tokens,
                json.dumps(request.interrupted_row),
            ),
        )
    return decided


_PLACED = "SELECT amount_nanousd, cap_tokens FROM holds WHERE id = ?"
_HELD_ROW = "SELECT interrupted_row FROM holds WHERE id = ? AND owner = ?"
_COUNTED = "SELECT spent_nanousd, requests FROM spend WHERE scope = ? AND period = ?"
_IN_FLIGHT = (
    "SELECT coalesce(sum(amount_nanousd), 0), count(*) FROM holds"
    " WHERE workspace = ? AND created_at >= ? AND created_at < ? AND id <> ?"
)


def read_used(
    connection: sqlite3.Connection, limit: Limit, workspace: str, key_id: str, *, except_id: str = ""
) -> CounterUse:
    """Return how much of a limit of ``workspace`` or its key ``key_id`` is used, and how much calls in flight hold.

    The hold of the call ``except_id`` is not counted.
    """
    counter = limit.counter
    counted = connection.execute(_COUNTED, (counter.scope, counter.period)).fetchone() or (0, 0)
    within = (workspace, period_start(counter.period), period_end(counter.period), except_id)
    if limit.kind in LIMITS_OF_KEYS:
        in_flight = connection.execute(f"{_IN_FLIGHT} AND key_id = ?", (*within, key_id)).fetchone()
    else:
        in_flight = connection.execute(_IN_FLIGHT, within).fetchone()
    return CounterUse(*counted, *in_flight)


def void(connection: sqlite3.Connection, call_id: str) -> None:
    """Release a hold, if it is there."""
    connection.execute("DELETE FROM holds WHERE id = ?", (call_id,))


def find_owners(connection: sqlite3.Connection) -> list[str]:
    """Return the owners of all holds."""
    return [owner for (owner,) in connection.execute("SELECT DISTINCT owner FROM holds")]


def interrupt(connection: sqlite3.Connection, dead: Iterable[str]) -> int:
    """Settle every hold of the dead owners as an interrupted call. Return how many there were."""
    ended = 0
    for owner in dead:
        rows = connection.execute("SELECT interrupted_row FROM holds WHERE owner = ?", (owner,)).fetchall()
        for (row,) in rows:
            settle(connection, Settlement(json.loads(row), from_wallet=False))
        ended += len(rows)
    return ended


# The ledger.


def settle(connection: sqlite3.Connection, settlement: Settlement) -> None:
    """Write a call's row and its wallet's payment, add its cost to every counter, and release its hold."""
    row, calls = write_call(connection, settlement)
    if calls is not None:
        spent_nanousd = row["retail_nanousd"]
        counters = counters_of(row["workspace"], row["key_id"], datetime.fromisoformat(row["created_at"]))
        counted = [value for c in counters for value in (c.scope, c.period, spent_nanousd, calls)]
        connection.execute(count_statement(len(counters)), counted)
        if settlement.from_wallet and spent_nanousd:
            wallet = wallet_counter(row["workspace"])
            connection.execute(count_statement(1), (wallet.scope, wallet.period, spent_nanousd, 0))
    void(connection, row["id"])


def credit(connection: sqlite3.Connection, entry: WalletEntry) -> bool:
    """Enter money into a wallet and count it; return whether the entry is new."""
    is_new = write_entry(connection, entry)
    if is_new:
        counter = wallet_counter(entry.workspace)
        connection.execute(count_statement(1), (counter.scope, counter.period, -entry.amount_nanousd, 0))
    return is_new
