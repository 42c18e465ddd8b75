"""The budgets of users who are forgotten: what they spent counts as ``FORGOTTEN``, in either engine and in archives.

Rows and counters change in one transaction, by the same amounts. So each recount agrees, also after a kill, and while
calls of the user end. Source: docs/retention.md.
"""

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from addon.store.money.ledger import Ledger
from policies.budgets import encode_scopes, forget_in, parse_scope, read_scopes, user_scopes


class CounterTable(NamedTuple):
    """The table of counters. With ``has_writers`` each writer has a part of a counter, and 0 what is merged."""

    name: str
    has_writers: bool = False

    @property
    def writer(self) -> str:
        """The SQL of the writer of a row."""
        return "writer" if self.has_writers else "0"


SPEND: Final = CounterTable("spend")


def forget_budgets(ledger: Ledger, table: CounterTable, ids: Sequence[str], user: str) -> None:
    """Let the budgets of users name ``user`` no more in some calls of the user, in the caller's transaction."""
    listed = json.dumps(ids)
    for budgets, spent_nanousd, requests in ledger.execute(_PAID, (listed,)).fetchall():
        scopes = read_scopes(budgets)
        kept = [forget_in(scope, user) for scope in scopes]
        for scope, taking in zip(scopes, kept, strict=True):
            if taking != scope:
                _take(ledger, table, scope, spent_nanousd, requests)
                _add(ledger, table, taking, spent_nanousd, requests)
        ledger.execute(_REPLACE, (encode_scopes(kept), budgets, listed))


def forget_counters(ledger: Ledger, table: CounterTable, workspace: str, user: str) -> None:
    """Move what is left in the user's counters, which is that of calls in archives, in the caller's transaction.

    A counter stays while a call here names it: the call came later.
    """
    find = f"SELECT DISTINCT scope FROM {table.name} WHERE scope >= ? AND scope < ?"  # noqa: S608
    remove = f"DELETE FROM {table.name} WHERE scope = ? AND {table.writer} = ?"  # noqa: S608
    found = ledger.execute(find, user_scopes(workspace))
    own = [scope for (scope,) in found.fetchall() if forget_in(scope, user) != scope]
    for scope in own:
        parts = _lock_parts(ledger, table, scope)
        named = ledger.execute(_NAMED, (workspace, user)).fetchall()
        if any(scope in read_scopes(budgets) for (budgets,) in named):
            continue
        spent_nanousd, requests = sum(part[0] for part in parts), sum(part[1] for part in parts)
        if spent_nanousd or requests:
            _add(ledger, table, forget_in(scope, user), spent_nanousd, requests)
        for *_, writer in parts:
            ledger.execute(remove, (scope, writer))


def _lock_parts(ledger: Ledger, table: CounterTable, scope: str) -> list[tuple[int, int, int]]:
    """Return nano-USD, calls and writer of each part of a counter. Who writes one waits for the transaction."""
    lock = " FOR UPDATE" if table.has_writers else ""
    sql = f"SELECT spent_nanousd, requests, {table.writer} FROM {table.name} WHERE scope = ? ORDER BY 3{lock}"  # noqa: S608
    return [(row[0], row[1], row[2]) for row in ledger.execute(sql, (scope,)).fetchall()]


def _take(ledger: Ledger, table: CounterTable, scope: str, spent_nanousd: int, requests: int) -> None:
    """Subtract from a counter. No part of it may have fewer calls than none."""
    for _, of_part, writer in _lock_parts(ledger, table, scope):
        taken = min(of_part, requests)
        ledger.execute(
            f"UPDATE {table.name} SET spent_nanousd = spent_nanousd - ?, requests = requests - ?"  # noqa: S608
            f" WHERE scope = ? AND {table.writer} = ?",
            (spent_nanousd, taken, scope, writer),
        )
        spent_nanousd, requests = 0, requests - taken


def _add(ledger: Ledger, table: CounterTable, scope: str, spent_nanousd: int, requests: int) -> None:
    columns, values = (", writer", ", 0") if table.has_writers else ("", "")
    ledger.execute(
        f"INSERT INTO {table.name} (scope, period, spent_nanousd, requests{columns})"  # noqa: S608
        f" VALUES (?, ?, 0, 0{values}) ON CONFLICT DO NOTHING",
        (scope, parse_scope(scope).period),
    )
    ledger.execute(
        f"UPDATE {table.name} SET spent_nanousd = spent_nanousd + ?, requests = requests + ?"  # noqa: S608
        f" WHERE scope = ? AND {table.writer} = 0",
        (spent_nanousd, requests, scope),
    )


_PAID: Final = """
    SELECT budgets, sum(retail_nanousd), count(*) FROM usage
    WHERE budgets IS NOT NULL AND id IN (SELECT value FROM json_each(?)) GROUP BY 1
"""
_REPLACE: Final = "UPDATE usage SET budgets = ? WHERE budgets = ? AND id IN (SELECT value FROM json_each(?))"
_NAMED: Final = (
    "SELECT DISTINCT budgets FROM usage WHERE workspace = ? AND end_user = ? AND budgets IS NOT NULL"
)
