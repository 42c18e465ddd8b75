"""The SQL of SQLite for the steps of ``store/money``, and the run of a step in the transaction of a connection."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final

from addon.store.money.engine import HOLDS, REFUSALS, Asked, Row, Rows, Statement, Step, Table
from addon.store.money.ledger import Ledger
from addon.store.money.rows import USAGE, WAS_INTERRUPTED
from policies.limits import EVER, LIMITS_OF_KEYS, Counter, LimitKind, period_end, period_start
from policies.spend import CounterUse

KEPT_BATCHES: Final = 1_000
"""How many ids of batches of refusals are kept. A batch is written again within seconds, or never."""


def run[T](ledger: Ledger, step: Step[T]) -> T:
    """Run a step, in the caller's transaction, and return its answer."""
    try:
        asked = next(step)
        while True:
            asked = step.send([_execute(ledger, one) for one in asked])
    except StopIteration as ended:
        answer: T = ended.value
        return answer


class Change(Statement):
    """A statement that changes the row whose key is its first value, or none. RETURNING costs SQLite 20 µs more."""

    __slots__ = ()


def _execute(ledger: Ledger, one: Statement) -> Rows:
    cursor = ledger.execute(*one)
    if type(one) is Change:
        return ((one.values[0],),) if cursor.rowcount else ()
    return cursor.fetchall() if cursor.description else ()


class SqliteEngine:
    """The ``Engine`` of SQLite."""

    def read_used(self, asked: Sequence[Asked]) -> Statement:
        values: list[str] = []
        for limit, workspace, key_id, except_id in asked:
            scope, period = limit.counter.scope, limit.counter.period
            values += (scope, period, workspace)
            if limit.kind == "budget_cap":
                values.append(scope)
            else:
                values += (key_id,) if limit.kind in LIMITS_OF_KEYS else ()
                values += (period_start(period), period_end(period)) if period != EVER else ()
            values += (except_id,) if except_id is not None else ()
        kinds = tuple([(one.limit.kind, one.limit.counter.period == EVER) for one in asked])
        return Statement(_used_statement(kinds, has_except=asked[0].except_id is not None), values)

    def find_used(self, rows: Rows, count: int) -> list[CounterUse]:
        read = {place: found for place, *found in rows}
        return [CounterUse(*read[2 * place], *read[2 * place + 1]) for place in range(count)]

    def insert(self, table: Table, rows: Sequence[Sequence[Any]]) -> Sequence[Statement]:
        sql = _insertion(table)
        return [Change(sql, row) for row in rows]

    def replace_interrupted(self, rows: Iterable[Row]) -> Sequence[Statement]:
        return [Change(_REPLACE_ROW, [row[name] for name in USAGE.columns]) for row in rows]

    def remove_attempts(self, ids: Sequence[str]) -> Sequence[Statement]:
        return [Statement("DELETE FROM attempts WHERE call_id = ?", (call_id,)) for call_id in ids]

    def replace_holds(self, rows: Sequence[Sequence[Any]]) -> Sequence[Statement]:
        return [Statement(_REPLACE_HOLD, row) for row in rows]

    def find_holds(self, ids: Sequence[str]) -> Sequence[Statement]:
        return [Statement(_FIND_HOLD, (call_id,)) for call_id in ids]

    def release(self, ids: Sequence[str]) -> Sequence[Statement]:
        return [Statement("DELETE FROM holds WHERE id = ?", (call_id,)) for call_id in ids]

    def count(self, sums: Mapping[tuple[str, str], tuple[int, int]]) -> Statement:
        values = [value for place, added in sums.items() for value in (*place, *added)]
        return Statement(_count_statement(len(sums)), values)

    def find_scopes(self, scopes: Sequence[str]) -> Statement:
        return Statement(_find_statement(len(scopes)), scopes)

    def count_scopes(self, first: str, end: str) -> Statement:
        return Statement(_COUNT_SCOPES, (first, end))

    def note_batch(self, batch_id: str) -> Statement:
        return Change(_NOTE_BATCH, (batch_id,))

    def count_refusals(self, rows: Sequence[Sequence[Any]]) -> Sequence[Statement]:
        return [
            *(Statement(_COUNT_REFUSAL, one) for one in rows),
            Statement(_FORGET_BATCHES, (KEPT_BATCHES,)),
        ]


SQLITE: Final = SqliteEngine()


def read_counters(connection: sqlite3.Connection, counters: Iterable[Counter]) -> list[tuple[int, int]]:
    """Return the nano-USD and the calls of each counter, without what calls in flight hold."""
    rows = (connection.execute(_COUNTER, (one.scope, one.period)).fetchone() for one in counters)
    return [row or (0, 0) for row in rows]


_COUNTER = "SELECT spent_nanousd, requests FROM spend WHERE scope = ? AND period = ?"
_COUNT_SCOPES = "SELECT count(*) FROM spend WHERE scope >= ? AND scope < ?"
_NOTE_BATCH = "INSERT INTO refusal_batches (id) VALUES (?) ON CONFLICT (id) DO NOTHING"
_FORGET_BATCHES = "DELETE FROM refusal_batches WHERE number <= (SELECT max(number) FROM refusal_batches) - ?"
_COUNT_REFUSAL = (
    f"INSERT INTO refusals ({', '.join(REFUSALS.columns)}) VALUES ({', '.join('?' * len(REFUSALS.columns))})"  # noqa: S608
    f" ON CONFLICT DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in REFUSALS.columns[4:])}"
)
_FIND_HOLD = "SELECT id, amount_nanousd, cap_tokens, owner, interrupted_row, budgets FROM holds WHERE id = ?"
_REPLACE_HOLD = (
    f"REPLACE INTO holds ({', '.join(HOLDS.columns)}) VALUES ({', '.join('?' * len(HOLDS.columns))})"  # noqa: S608
)
_REPLACE_ROW = (
    f"UPDATE usage SET {', '.join(f'{name} = ?{place}' for place, name in enumerate(USAGE.columns, 1))}"  # noqa: S608
    f" WHERE id = ?1 AND {WAS_INTERRUPTED}"
)


@cache
def _insertion(table: Table) -> str:
    verb = "INSERT OR IGNORE" if table.known == "lenient" else "INSERT"
    names, values = ", ".join(table.columns), ", ".join("?" * len(table.columns))
    conflict = f" ON CONFLICT ({table.columns[0]}) DO NOTHING" if table.known == "left out" else ""
    return f"{verb} INTO {table.name} ({names}) VALUES ({values}){conflict}"


@lru_cache(maxsize=128)
def _used_statement(kinds: tuple[tuple[LimitKind, bool], ...], *, has_except: bool) -> str:
    """Return the SQL that reads the use of several limits: two rows for each, which begin with the row's number.

    ``kinds`` says of each limit what it is, and whether its period never ends.
    """
    parts = []
    for place, (kind, is_ever) in enumerate(kinds):
        within = "workspace = ?"
        if kind == "budget_cap":
            within += " AND ? IN (SELECT value FROM json_each(holds.budgets))"
        else:
            within += " AND key_id = ?" if kind in LIMITS_OF_KEYS else ""
            within += "" if is_ever else " AND created_at >= ? AND created_at < ?"
        within += " AND id <> ?" if has_except else ""
        counted = "coalesce(sum(spent_nanousd), 0), coalesce(sum(requests), 0)"
        held = "coalesce(sum(amount_nanousd), 0), count(*)"
        parts.append(f"SELECT {2 * place}, {counted} FROM spend WHERE scope = ? AND period = ?")  # noqa: S608
        parts.append(f"SELECT {2 * place + 1}, {held} FROM holds WHERE {within}")  # noqa: S608
    return " UNION ALL ".join(parts)


@cache
def _find_statement(scopes: int) -> str:
    return f"SELECT DISTINCT scope FROM spend WHERE scope IN ({', '.join('?' * scopes)})"  # noqa: S608


@cache
def _count_statement(counters: int) -> str:
    """Return the SQL that adds to several counters at once. Each takes scope, period, nano-USD and calls."""
    rows = ", ".join(["(?, ?, ?, ?)"] * counters)
    return f"""
        INSERT INTO spend (scope, period, spent_nanousd, requests) VALUES {rows}
        ON CONFLICT (scope, period) DO UPDATE
        SET spent_nanousd = spent_nanousd + excluded.spent_nanousd, requests = requests + excluded.requests
    """  # noqa: S608
