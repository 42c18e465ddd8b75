"""The steps of ``SqliteStore`` on its tables. Each function runs inside one transaction.

All raise ``sqlite3.Error``. Source of the rules: ``policies.token_bucket``, ``policies.limits``, ``policies.spend``.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from functools import cache, lru_cache
from typing import Any

from addon.runtime.clock import Clock
from addon.store.ledger.rows import encode_row, write_call, write_entry
from addon.store.protocol import LEASE_S, HoldRequest, NoToken, Settlement, WalletEntry
from policies.limits import (
    EVER,
    LIMITS_OF_KEYS,
    Counter,
    Limit,
    counters_of,
    period_end,
    period_start,
    wallet_counter,
)
from policies.spend import CounterUse, Denial, Hold, place_hold
from policies.token_bucket import WINDOW_US, slice_us
from policies.utc_time import format_utc

# The limiter.


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


# Holds.


def take_and_hold(
    connection: sqlite3.Connection, request: HoldRequest, limit_rpm: int, owner: str, clock: Clock
) -> Hold | Denial | NoToken:
    """Take a token, and then do as ``hold``. Without a token, change nothing."""
    wait_us = take_token(connection, request.workspace, limit_rpm, int(clock.monotonic_s() * 1_000_000))
    return NoToken(wait_us) if wait_us else hold(connection, request, owner, clock)


def hold(connection: sqlite3.Connection, request: HoldRequest, owner: str, clock: Clock) -> Hold | Denial:
    """Place the hold that ``policies.spend`` allows, or return its denial. Return the hold that a call has already."""
    # A hold that this call has already is counted against it here, but then it is returned.
    used = read_used(connection, request.limits, request.workspace, request.key_id)
    decided = _decide(request, used)
    if isinstance(decided, Hold):
        values = _hold_values(request, decided, owner, clock)
        if connection.execute(_INSERT_HOLD, values).rowcount:
            return decided
    placed = connection.execute(_PLACED, (request.id,)).fetchone()
    return Hold(*placed) if placed else decided


def move_hold(
    connection: sqlite3.Connection, request: HoldRequest, owner: str, clock: Clock
) -> Hold | Denial | None:
    """Replace the call's hold by the one that is allowed, or keep it. Return None when ``owner`` holds no such call."""
    held = connection.execute(_HELD_ROW, (request.id, owner)).fetchone()
    if held is None:
        return None
    if held == (encode_row(request.interrupted_row),):
        return Hold(*connection.execute(_PLACED, (request.id,)).fetchone())
    used = read_used(connection, request.limits, request.workspace, request.key_id, except_id=request.id)
    decided = _decide(request, used)
    if isinstance(decided, Hold):
        connection.execute(_REPLACE_HOLD, _hold_values(request, decided, owner, clock))
    return decided


def _decide(request: HoldRequest, used: Iterable[CounterUse]) -> Hold | Denial:
    by_counter = {limit.counter: use for limit, use in zip(request.limits, used, strict=True)}
    return place_hold(request.max_cost, request.limits, by_counter)


def _hold_values(request: HoldRequest, placed: Hold, owner: str, clock: Clock) -> tuple[Any, ...]:
    """Return the row of a hold. Its ``expires_at`` is for people who read the table: the owner's lock decides."""
    row = request.interrupted_row
    return (
        request.id,
        row["created_at"],
        format_utc(clock.now() + _LEASE),
        request.workspace,
        request.key_id,
        placed.amount_nanousd,
        owner,
        placed.cap_tokens,
        encode_row(row),
    )


_LEASE = timedelta(seconds=LEASE_S)
_INSERT_HOLD = "INSERT INTO holds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
_REPLACE_HOLD = "REPLACE INTO holds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_PLACED = "SELECT amount_nanousd, cap_tokens FROM holds WHERE id = ?"
_HELD_ROW = "SELECT interrupted_row FROM holds WHERE id = ? AND owner = ?"


def read_used(
    connection: sqlite3.Connection,
    limits: Sequence[Limit],
    workspace: str,
    key_id: str,
    *,
    except_id: str | None = None,
) -> list[CounterUse]:
    """Return how much of each limit of ``workspace`` or its key ``key_id`` is used, and how much calls in flight hold.

    The hold of the call ``except_id`` is not counted.
    """
    if not limits:
        return []
    values: list[str] = []
    for limit in limits:
        counter = limit.counter
        values += (counter.scope, counter.period, workspace)
        values += (key_id,) if limit.kind in LIMITS_OF_KEYS else ()
        values += _days_of(counter.period) if counter.period != EVER else ()
        values += (except_id,) if except_id is not None else ()
    kinds = tuple([(limit.kind in LIMITS_OF_KEYS, limit.counter.period == EVER) for limit in limits])
    statement = _used_statement(kinds, has_except=except_id is not None)
    read = {place: found for place, *found in connection.execute(statement, values)}
    return [CounterUse(*read[2 * place], *read[2 * place + 1]) for place in range(len(limits))]


def read_counters(connection: sqlite3.Connection, counters: Iterable[Counter]) -> list[tuple[int, int]]:
    """Return the nano-USD and the calls of each counter, without what calls in flight hold."""
    rows = (connection.execute(_COUNTER, (one.scope, one.period)).fetchone() for one in counters)
    return [row or (0, 0) for row in rows]


_COUNTER = "SELECT spent_nanousd, requests FROM spend WHERE scope = ? AND period = ?"


@lru_cache(maxsize=128)
def _used_statement(kinds: tuple[tuple[bool, bool], ...], *, has_except: bool) -> str:
    """Return the SQL that reads the use of several limits: two rows for each, which begin with the row's number.

    ``kinds`` says of each limit whether it is one of a key, and whether its period never ends.
    """
    parts = []
    for place, (is_of_key, is_ever) in enumerate(kinds):
        within = "workspace = ?"
        within += " AND key_id = ?" if is_of_key else ""
        within += "" if is_ever else " AND created_at >= ? AND created_at < ?"
        within += " AND id <> ?" if has_except else ""
        counted = "coalesce(sum(spent_nanousd), 0), coalesce(sum(requests), 0)"
        held = "coalesce(sum(amount_nanousd), 0), count(*)"
        parts.append(f"SELECT {2 * place}, {counted} FROM spend WHERE scope = ? AND period = ?")  # noqa: S608
        parts.append(f"SELECT {2 * place + 1}, {held} FROM holds WHERE {within}")  # noqa: S608
    return " UNION ALL ".join(parts)


@lru_cache(maxsize=64)
def _days_of(period: str) -> tuple[str, str]:
    return period_start(period), period_end(period)


def void(connection: sqlite3.Connection, call_id: str) -> None:
    """Release a hold, if it is there."""
    connection.execute(_VOID, (call_id,))


_VOID = "DELETE FROM holds WHERE id = ?"


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
        day = datetime.fromisoformat(row["created_at"]).date()
        *counters, wallet = _counters_of(row["workspace"], row["key_id"], day)
        counted = [value for name in counters for value in (*name, spent_nanousd, calls)]
        if settlement.from_wallet and spent_nanousd:
            counted += (*wallet, spent_nanousd, 0)
        connection.execute(_count_statement(len(counted) // 4), counted)
    connection.execute(_VOID, (row["id"],))


@cache
def _count_statement(counters: int) -> str:
    """Return the SQL that adds to several counters at once. Each takes scope, period, nano-USD and calls."""
    rows = ", ".join(["(?, ?, ?, ?)"] * counters)
    return f"""
        INSERT INTO spend (scope, period, spent_nanousd, requests) VALUES {rows}
        ON CONFLICT (scope, period) DO UPDATE
        SET spent_nanousd = spent_nanousd + excluded.spent_nanousd, requests = requests + excluded.requests
    """  # noqa: S608


@lru_cache(maxsize=4096)
def _counters_of(workspace: str, key_id: str, day: date) -> tuple[tuple[str, str], ...]:
    """Return the scope and the period of each counter that a call adds to, the wallet's last."""
    counters = (*counters_of(workspace, key_id, day), wallet_counter(workspace))
    return tuple((counter.scope, counter.period) for counter in counters)


def credit(connection: sqlite3.Connection, entry: WalletEntry) -> bool:
    """Enter money into a wallet and count it; return whether the entry is new."""
    is_new = write_entry(connection, entry)
    if is_new:
        counter = wallet_counter(entry.workspace)
        connection.execute(_count_statement(1), (counter.scope, counter.period, -entry.amount_nanousd, 0))
    return is_new
