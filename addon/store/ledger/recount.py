"""A recount of every counter from the ledger's rows, whether SQLite or Redis kept the counters."""

import sqlite3
from collections import defaultdict
from dataclasses import dataclass
from datetime import date

from policies.limits import Counter, counters_of, wallet_counter


@dataclass(frozen=True, slots=True)
class CounterTotals:
    """The sums of one counter. For a wallet, ``spent_nanousd`` is the negative balance, and ``requests`` is 0."""

    spent_nanousd: int = 0
    requests: int = 0


_DAYS = """
    SELECT workspace, key_id, substr(created_at, 1, 10), sum(retail_nanousd), count(*) FROM usage GROUP BY 1, 2, 3
"""
_WALLETS = "SELECT workspace, -sum(amount_nanousd) FROM wallet_entries GROUP BY 1"


def recount(connection: sqlite3.Connection) -> dict[Counter, CounterTotals]:
    """Return every counter that the rows add to, of all periods. Raises ``sqlite3.Error``."""
    sums: defaultdict[Counter, CounterTotals] = defaultdict(CounterTotals)
    for workspace, key_id, day, spent_nanousd, requests in connection.execute(_DAYS):
        for counter in counters_of(workspace, key_id, date.fromisoformat(day)):
            before = sums[counter]
            sums[counter] = CounterTotals(before.spent_nanousd + spent_nanousd, before.requests + requests)
    for workspace, missing_nanousd in connection.execute(_WALLETS):
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
    """Keep the counters in this file again when Redis kept them before: count them again from the rows."""
    (redis_state,) = connection.execute("SELECT redis_state FROM ledger").fetchone()
    if redis_state is None:
        return
    connection.execute("DELETE FROM spend")
    write_counters(connection)
    connection.execute("UPDATE ledger SET redis_state = NULL")
