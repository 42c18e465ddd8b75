"""The numbers of calls by each name that calls can be filtered by. Source: docs/console.md."""

from collections.abc import Sequence
from typing import Final

from addon.store.money.ledger import Ledger
from addon.store.money.reports.call_filter import Filter, join_conditions
from addon.store.money.reports.sum_sources import DAYS, ROWS, split_time
from addon.store.money.reports.totals import select_part
from addon.text.table import Table

COUNTED: Final = {
    "workspace": "workspace",
    "key": "key_id",
    "model": "model_slug",
    "provider": "provider",
    "status": "status_class",
    "mode": "mode",
}
"""The columns that are counted, by the name of their filter."""

MAX_ROWS: Final = 100_000
"""How many calls are counted one by one: for a filter that no sums have, and in a time that they do not cover."""


def count_calls(ledger: Ledger, wanted: Filter, most: int) -> Table | None:
    """Return the ``most`` frequent values of each filter, with the number of wanted calls.

    None when the wanted calls can't be counted in a bounded time: see ``MAX_ROWS``.
    """
    if not _is_bounded(ledger, wanted):
        return None
    counted, values = _union(ledger, wanted, list(COUNTED.values()))
    groups = [
        f"SELECT * FROM (SELECT '{name}' AS filter, {column} AS value, sum(calls) AS calls FROM counted"  # noqa: S608
        " GROUP BY 2 ORDER BY 3 DESC, 2 LIMIT ?) AS most"
        for name, column in COUNTED.items()
    ]
    sql = f"WITH counted AS MATERIALIZED ({counted}) {' UNION ALL '.join(groups)}"
    cursor = ledger.execute(sql, (*values, *[most] * len(groups)))
    return Table([column[0] for column in cursor.description], cursor.fetchall())


def _is_bounded(ledger: Ledger, wanted: Filter) -> bool:
    """Return whether at most ``MAX_ROWS`` rows have to be read, where there are no sums. Only an index is read here."""
    narrowed = {} if wanted.workspace is None else {"workspace = ?": wanted.workspace}
    left = MAX_ROWS
    for part in split_time(ledger, wanted, DAYS):
        if part.source is ROWS:
            within = {"created_at >= ?": part.begin, "created_at < ?": part.end}
            where, values = join_conditions(narrowed | within)
            sql = f"SELECT count(*) FROM (SELECT 1 FROM usage WHERE {where} LIMIT ?) AS looked_at"  # noqa: S608
            left -= ledger.execute(sql, (*values, left + 1)).fetchone()[0]
        if left < 0:
            return False
    return True


def _union(ledger: Ledger, wanted: Filter, names: Sequence[str]) -> tuple[str, list[str]]:
    """Return the SQL of the counts in all parts of the time, and its values."""
    selects, values = [], list[str]()
    for part in split_time(ledger, wanted, DAYS):
        sql, of_part = select_part(part, names, wanted, ("calls",))
        selects.append(sql)
        values += of_part
    return " UNION ALL ".join(selects), values
