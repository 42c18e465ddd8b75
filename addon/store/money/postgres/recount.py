"""The repair of sums in PostgreSQL: what they lack of their calls is added to them.

A call that ends meanwhile is added to both, so the difference stays the same and no call waits.
"""

from typing import Final

from addon.store.money.ledger import Ledger
from addon.store.money.postgres.sum_schema import LATE, MERGING_LOCK, PARTS, derive, merged, sum_calls
from addon.store.money.sums.rollup_check import WrongPeriod, period_bounds
from addon.store.money.sums.rollup_schema import HOURS, RollupTable
from addon.store.money.sums.rollups import read_progress

_LOCK: Final = f"SELECT pg_advisory_xact_lock({MERGING_LOCK})"


def repair(ledger: Ledger, wrong: WrongPeriod) -> None:
    """Make the sums of a period those of its calls, in the transaction of ``ledger``. Raises ``psycopg.Error``.

    The sums of an archived month can't be repaired here.
    """
    table, period = wrong
    ledger.execute(_LOCK)
    progress = read_progress(ledger)
    is_merged = table is not HOURS or period < progress.days_until
    if not is_merged:
        ledger.execute(f"DELETE FROM {merged(table)} WHERE {table.period} = ?", (period,))  # noqa: S608
    ledger.execute(_addition(table, is_merged), (*period_bounds(table, period, progress), period, period))


def _addition(table: RollupTable, is_merged: bool) -> str:
    """Return the SQL that adds, in one statement and so of one moment, the calls less what is kept of them."""
    target, numbers = merged(table), (*table.sums, *table.buckets)
    negative = ", ".join([*table.groups, *(f"-{one}" for one in numbers)])
    late = f" WHERE {LATE}" if table is not HOURS else ""
    difference = (
        f"SELECT {', '.join(table.groups)}, {', '.join(f'sum({one}) AS {one}' for one in numbers)} FROM ("  # noqa: S608
        f" {sum_calls(table)}"
        f" UNION ALL SELECT {negative} FROM {target} WHERE {table.period} = ?"
        f" UNION ALL SELECT {negative} FROM ({derive(table, PARTS)}{late}) AS part WHERE {table.period} = ?"
        f") AS one GROUP BY {', '.join(table.groups)}"
    )
    writer, its_key = ("", "") if is_merged else (", writer", ", writer")
    if not is_merged:
        target, difference = PARTS, f"SELECT difference.*, 0 FROM ({difference}) AS difference"  # noqa: S608
    changed = ", ".join(f"{one} = {target}.{one} + excluded.{one}" for one in numbers)
    return (
        f"INSERT INTO {target} ({', '.join(table.columns)}{writer}) {difference}"
        f" ON CONFLICT ({', '.join(table.groups)}{its_key}) DO UPDATE SET {changed}"
    )
