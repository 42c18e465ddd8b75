"""How many rows the tables of the ledger have, counted only so far that a page does not wait for it."""

from typing import Final

from addon.store.money.ledger import Ledger
from addon.text.table import Table

MAX_COUNTED: Final = 100_000

_TABLES: Final = ("wallet_entries", "refusals", "spend", "holds", "alerts")


def find_sizes(ledger: Ledger, calls: int) -> Table:
    """Return the number of rows of each table; ``is_at_least`` where there are more. ``calls`` are of the sums."""
    rows: list[tuple[str, int, bool]] = [("usage", calls, False)]
    known = {name for (name,) in ledger.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    for table in _TABLES:
        if table in known:
            sql = f"SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT ?) AS counted"  # noqa: S608
            (count,) = ledger.execute(sql, (MAX_COUNTED + 1,)).fetchone()
            rows.append((table, min(count, MAX_COUNTED), count > MAX_COUNTED))
    return Table(("table", "rows", "is_at_least"), rows)
