"""A recount of every counter from the ledger's rows."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from addon.store.money.archives.archives import has_archives
from addon.store.money.ledger import Ledger, find_columns
from policies.budgets import parse_scope, read_scopes
from policies.limits import Counter, counters_of, wallet_counter


@dataclass(frozen=True, slots=True)
class CounterTotals:
    """The sums of one counter. For a wallet, ``spent_nanousd`` is the negative balance, and ``requests`` is 0."""

    spent_nanousd: int = 0
    requests: int = 0


DAYS = """
    SELECT workspace, key_id, substr(created_at, 1, 10), sum(retail_nanousd), count(*) FROM usage GROUP BY 1, 2, 3
"""
_HOURS: Final = """
    SELECT workspace, key_id, substr(hour, 1, 10), sum(retail_nanousd), sum(calls) FROM rollups GROUP BY 1, 2, 3
"""
WALLETS = "SELECT workspace, -sum(amount_nanousd) FROM wallet_entries GROUP BY 1"

BUDGETS = """
    SELECT budgets, sum(retail_nanousd), count(*) FROM usage WHERE budgets IS NOT NULL GROUP BY 1
"""

_RECORDED = "(SELECT month FROM archives WHERE file_sha256 IS NOT NULL)"
# The sums of an archived month have its late calls, too. Its calls may be here until all of them are removed.
_KEPT_DAYS = f"""
    SELECT workspace, key_id, substr(created_at, 1, 10), sum(retail_nanousd), count(*) FROM usage
    WHERE substr(created_at, 1, 7) NOT IN {_RECORDED} GROUP BY 1, 2, 3
    UNION ALL
    SELECT workspace, key_id, day, sum(retail_nanousd), sum(calls) FROM days
    WHERE substr(day, 1, 7) IN {_RECORDED} GROUP BY 1, 2, 3
"""  # noqa: S608
_KEPT_WALLETS = f"""
    SELECT workspace, -sum(amount_nanousd) FROM (
        SELECT workspace, amount_nanousd FROM wallet_entries
        WHERE reference <> 'call' OR substr(created_at, 1, 7) NOT IN {_RECORDED}
            OR id IN (SELECT id FROM late_calls)
        UNION ALL
        SELECT workspace, amount_nanousd FROM archived_workspaces WHERE charges > 0
    ) AS entry GROUP BY 1
"""  # noqa: S608
# No sums have budgets. So those of an archived month are counted in its file alone.
_KEPT_BUDGETS = BUDGETS.replace("GROUP BY", f"AND substr(created_at, 1, 7) NOT IN {_RECORDED} GROUP BY")


def recount(connection: Ledger, *, by_hours: bool = False) -> dict[Counter, CounterTotals]:
    """Return every counter that the rows add to, of all periods. Raises ``sqlite3.Error``.

    Of an archived month, the sums by day are added, which the record of its file proves. With ``by_hours``, the sums by
    hour are added: they must be those of all rows. Counters of budgets are of the rows that are here.
    """
    has_files = has_archives(connection)
    days, wallets = (_KEPT_DAYS, _KEPT_WALLETS) if has_files else (DAYS, WALLETS)
    if by_hours:
        days = _HOURS
    found = sum_counters(connection.execute(days), connection.execute(wallets))
    if "budgets" in find_columns(connection, "usage"):
        found |= sum_budgets(connection.execute(_KEPT_BUDGETS if has_files else BUDGETS))
    return found


def sum_budgets(paid: Iterable[Any]) -> dict[Counter, CounterTotals]:
    """Return every counter of budgets, given what ``BUDGETS`` finds."""
    sums: defaultdict[Counter, CounterTotals] = defaultdict(CounterTotals)
    for budgets, spent_nanousd, requests in paid:
        for scope in read_scopes(budgets):
            counter = Counter(scope, parse_scope(scope).period)
            before = sums[counter]
            sums[counter] = CounterTotals(before.spent_nanousd + spent_nanousd, before.requests + requests)
    return dict(sums)


def sum_counters(days: Iterable[Any], wallets: Iterable[Any]) -> dict[Counter, CounterTotals]:
    """Return every other counter, given what ``DAYS`` and ``WALLETS`` find."""
    sums: defaultdict[Counter, CounterTotals] = defaultdict(CounterTotals)
    for workspace, key_id, day, spent_nanousd, requests in days:
        for counter in counters_of(workspace, key_id, date.fromisoformat(day)):
            before = sums[counter]
            sums[counter] = CounterTotals(before.spent_nanousd + spent_nanousd, before.requests + requests)
    for workspace, missing_nanousd in wallets:
        sums[wallet_counter(workspace)] = CounterTotals(missing_nanousd)
    return dict(sums)


def write_counters(connection: sqlite3.Connection) -> None:
    """Fill the empty table ``spend`` from the rows. Raises ``sqlite3.Error``."""
    connection.executemany(
        "INSERT INTO spend VALUES (?, ?, ?, ?)",
        [
            (counter.scope, counter.period, totals.spent_nanousd, totals.requests)
            for counter, totals in recount(connection).items()
        ],
    )


def reclaim_counters(connection: sqlite3.Connection) -> None:
    """Count again when Redis kept the counters, as an earlier version did."""
    (redis_state,) = connection.execute("SELECT redis_state FROM ledger").fetchone()
    if redis_state is not None:
        count_again(connection)


def count_again(connection: sqlite3.Connection) -> None:
    """Count all counters from the rows, and keep them here from now on."""
    connection.execute("DELETE FROM spend")
    write_counters(connection)
    connection.execute("UPDATE ledger SET redis_state = NULL")
