"""The checks of ``tollgate ledger verify``: rows, prices, counters, wallets and rollups agree to the nano-dollar.

The audit log has each of its lines.
"""

import sqlite3
from collections.abc import Iterable

from addon.store.money.archives.archives import find_archives
from addon.store.money.audit.audit import find_audit_gaps
from addon.store.money.ledger import Ledger
from addon.store.money.reports.calls_by_id import count_wrong_ids
from addon.store.money.rows import CALL
from addon.store.money.sqlite.recount import CounterTotals, recount
from addon.store.money.sums.rollup_check import find_wrong
from addon.store.money.sums.rollup_schema import AFTER_ALL
from addon.store.money.sums.rollups import read_progress
from addon.store.money.verify.price_check import find_wrong_costs
from policies.budgets import is_budget_scope
from policies.exchange import INTERRUPTED
from policies.limits import Counter, period_end, period_start


def verify(connection: Ledger) -> list[str]:
    """Return every discrepancy in the ledger, one line each.

    Nothing else is read from a damaged file. Counters that an earlier version kept in Redis are not checked. In a
    transaction of ``connection``, everything is read at one moment.
    """
    redis_state = None
    if isinstance(connection, sqlite3.Connection):
        if damages := [*_check_file(connection)]:
            return damages
        (redis_state,) = connection.execute("SELECT redis_state FROM ledger").fetchone()
    wrong_sums = list(find_wrong(connection))
    # Sums by hour that are right, of all rows, add up to the same counters as the rows.
    by_hours = not wrong_sums and not read_progress(connection).hours_from
    return [
        *(_check_counters(connection, by_hours=by_hours) if redis_state is None else ()),
        *find_wrong_costs(connection),
        *_check_charges(connection),
        *_check_holds(connection),
        *(f"{table.name} of {period}: the sums differ from the calls" for table, period in wrong_sums),
        *_check_client_ids(connection),
        *find_audit_gaps(connection),
    ]


def _check_file(connection: sqlite3.Connection) -> Iterable[str]:
    for (result,) in connection.execute("PRAGMA quick_check"):
        if result != "ok":
            yield f"the file is damaged: {result}"


def _check_counters(connection: Ledger, *, by_hours: bool) -> Iterable[str]:
    stored = {
        Counter(scope, period): CounterTotals(spent_nanousd, requests)
        for scope, period, spent_nanousd, requests in connection.execute(
            "SELECT scope, period, spent_nanousd, requests FROM spend"
        )
    }
    recorded = recount(connection, by_hours=by_hours)
    archived = [one.month for one in find_archives(connection) if one.file_sha256 is not None]
    for counter in sorted({*stored, *recorded}, key=lambda one: (one.scope, one.period)):
        found, wanted = stored.get(counter, CounterTotals()), recorded.get(counter, CounterTotals())
        if is_budget_scope(counter.scope) and _has_month(counter.period, archived):
            # The calls of the month are in its file, and no sums have what its budgets paid.
            wanted = CounterTotals(
                max(found.spent_nanousd, wanted.spent_nanousd), max(found.requests, wanted.requests)
            )
        yield from _compare(counter, found, wanted)


def _has_month(period: str, months: Iterable[str]) -> bool:
    """Return whether a part of one of the months ("2026-10") is in a period."""
    first, end = period_start(period), period_end(period)
    return any(month < end and first < month + AFTER_ALL for month in months)


def _compare(counter: Counter, stored: CounterTotals, recorded: CounterTotals) -> Iterable[str]:
    name = f"counter {counter.scope} of {counter.period}"
    if stored.spent_nanousd != recorded.spent_nanousd:
        yield f"{name}: {stored.spent_nanousd} nano-USD are counted, {recorded.spent_nanousd} are recorded"
    if stored.requests != recorded.requests:
        yield f"{name}: {stored.requests} calls are counted, {recorded.requests} are recorded"


def _check_charges(connection: Ledger) -> Iterable[str]:
    wrong = connection.execute(
        """
        SELECT entry.id, entry.workspace, -entry.amount_nanousd, usage.workspace, usage.retail_nanousd
        FROM wallet_entries AS entry LEFT JOIN usage ON usage.id = entry.id
        WHERE entry.reference = ? AND (
            usage.id IS NULL OR usage.retail_nanousd <> -entry.amount_nanousd OR usage.workspace <> entry.workspace
        ) ORDER BY entry.created_at, entry.id
        """,
        (CALL,),
    )
    for call_id, workspace, paid_nanousd, of_workspace, cost_nanousd in wrong:
        recorded = "no such call is recorded" if cost_nanousd is None else f"{of_workspace}: {cost_nanousd}"
        yield f"charge {call_id}: the wallet of {workspace} paid {paid_nanousd} nano-USD, {recorded}"


def _check_holds(connection: Ledger) -> Iterable[str]:
    sql = "SELECT id FROM holds JOIN usage USING (id) WHERE usage.error_code IS DISTINCT FROM ? ORDER BY id"
    for (call_id,) in connection.execute(sql, (INTERRUPTED,)):
        yield f"hold {call_id}: the call is recorded, but money is still held for it"


def _check_client_ids(connection: Ledger) -> Iterable[str]:
    if wrong := count_wrong_ids(connection):
        yield f"client_requests: {wrong} calls are missing or wrong"
