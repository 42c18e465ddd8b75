"""Reports on calls, wallets and limits, read through a ledger that can't be written. Source: docs/ledger.md."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from addon.store.money.engine import COUNTED_APIS
from addon.store.money.holds import read_used
from addon.store.money.ledger import NO_LIMIT, Cursor, Ledger, find_columns
from addon.store.money.reports.call_filter import Filter, join_conditions
from addon.store.money.reports.recent_calls import select_recent
from addon.store.money.reports.totals import select_totals
from addon.store.money.reports.wallet_credits import Credit, find_wallet_cap
from addon.store.money.sqlite.engine import SQLITE, run
from addon.store.money.sqlite.migrations import migrate
from addon.store.money.sums.rollup_schema import AFTER_ALL
from addon.store.money.values import choose
from addon.store.protocol import StoreUnavailable, WalletEntry
from addon.text.table import Table
from policies.budgets import parse_scope
from policies.limits import LIMITS_OF_KEYS, Limit, limits_of, wallet_counter
from policies.model import Workspace
from policies.spend import CounterUse
from policies.utc_time import format_utc


@contextmanager
def open_report(path: Path) -> Iterator[sqlite3.Connection]:
    """Give a view of the ledger at one moment. A missing ledger counts as empty. Raises sqlite3.Error, OSError."""
    exists = path.exists()
    target = f"{path.absolute().as_uri()}?mode=ro" if exists else ":memory:"
    with closing(sqlite3.connect(target, uri=exists, timeout=2, isolation_level=None)) as connection:
        if not exists:
            migrate(connection)
        connection.execute("BEGIN")
        yield connection


def find_recent(ledger: Ledger, wanted: Filter, limit: int) -> Table:
    """Return the newest calls with every column of the ledger, the newest first."""
    return Table(*select_recent(ledger, wanted, limit))


def find_totals(ledger: Ledger, by: str, wanted: Filter, limit: int | None) -> Table:
    """Return sums by one or two of ``GROUPS``. Times are sorted, newest first; other groups by cost, highest first."""
    return _table(select_totals(ledger, by, wanted, limit))


REFUSAL_COLUMNS = ("workspace", "key_id", "code", "api", "count", "last_hour")


def find_refusals(ledger: Ledger, wanted: Filter, limit: int | None) -> Table:
    """Return how often calls were refused, by workspace, key, code and API, with the newest hour; most frequent first.

    Workspace and key are None where no valid key was sent. An hour counts if any moment of it is wanted. Of the filter
    only workspace, key, API and time apply.
    """
    if not has_table(ledger, "refusals"):
        return Table(REFUSAL_COLUMNS, [])
    where, values = join_conditions(
        {
            "workspace = ?": wanted.workspace,
            "key_id = ?": wanted.key,
            "hour >= substr(?, 1, 13)": wanted.since,
            "hour || ':00:00.000+00:00' < ?": wanted.until,
        }
    )
    selects = [
        f"SELECT hour, workspace, key_id, code, '{api}' AS api, {count} AS count"  # noqa: S608
        f" FROM refusals WHERE {where} AND {count} > 0"
        for api, count in _list_refusal_counts(ledger).items()
        if wanted.api in (None, api)
    ]
    if not selects:
        return Table(REFUSAL_COLUMNS, [])
    sql = f"""
        SELECT nullif(workspace, '') AS workspace, nullif(key_id, '') AS key_id, code, api, sum(count) AS count,
               max(hour) AS last_hour
        FROM ({" UNION ALL ".join(selects)}) AS counted GROUP BY 1, 2, 3, 4
        ORDER BY 5 DESC, 6 DESC, 1 NULLS FIRST, 2 NULLS FIRST, 3, 4 LIMIT ?
    """  # noqa: S608
    return _table(ledger.execute(sql, (*values * len(selects), NO_LIMIT if limit is None else limit)))


def _list_refusal_counts(ledger: Ledger) -> Mapping[str, str]:
    """Return the SQL of the refused calls of each API. A ledger of an earlier version has chat calls alone."""
    columns = find_columns(ledger, "refusals")
    kept = [name for name in COUNTED_APIS if name in columns]
    return {"chat": " - ".join(["count", *kept]), **{name: name for name in kept}}


def has_table(ledger: Ledger, name: str) -> bool:
    """Return False for a later table, if an older version has used the ledger last, and no gateway has opened it."""
    return ledger.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (name,)).fetchone() is not None


type ReadUsed = Callable[[Limit, str, str], CounterUse]
"""Returns how much of a limit is used, given the limit, the workspace and the key id."""


class LedgerCounters:
    """The counters of a ledger: a ``ReadUsed``."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __call__(self, limit: Limit, workspace: str, key_id: str) -> CounterUse:
        return run(self._ledger, read_used([limit], workspace, key_id, SQLITE))[0]

    def choose(self, limits: Sequence[Limit]) -> Sequence[Limit]:
        """Return the limits of a call, with the shared one for each value of a budget that would get no counter."""
        return run(self._ledger, choose(limits, SQLITE))


def ledger_counters(ledger: Ledger) -> LedgerCounters:
    """Return the counters in this ledger. Raise ``StoreUnavailable`` when Redis keeps them."""
    # PostgreSQL never left them to Redis.
    may_be_there = "redis_state" in find_columns(ledger, "ledger")
    if may_be_there and ledger.execute("SELECT redis_state FROM ledger").fetchone() != (None,):
        raise StoreUnavailable(
            "the counters are in Redis; the next gateway that starts on this ledger takes them over"
        )
    return LedgerCounters(ledger)


LIMIT_COLUMNS = (
    "workspace",
    "key_id",
    "limit",
    "period",
    "spent_nanousd",
    "held_nanousd",
    "cap_nanousd",
    "left_nanousd",
    "requests",
    "requests_in_flight",
    "request_cap",
    "requests_left",
)


def find_limits(
    read_used: ReadUsed, workspaces: Iterable[Workspace], now: datetime, credits: Mapping[str, Credit]
) -> Table:
    """Return how much is left of every limit of metered calls at ``now`` (UTC): the cap, less what is spent and held.

    The limits of each workspace come first, then those of its active keys. ``credits`` has the last credit of each
    wallet, which is the wallet's cap; where the balance is more, that is. Columns of the other unit, and ``key_id`` for
    a limit of the workspace, are None.
    """
    rows = []
    for workspace in workspaces:
        of_keys = {
            limit: key.id
            for key in workspace.keys
            if key.active
            for limit in limits_of(workspace, key, "payg", now)
        }
        for limit, key_id in sorted(of_keys.items(), key=lambda item: item[0].kind in LIMITS_OF_KEYS):
            used = read_used(limit, workspace.id, key_id)
            shown_key = key_id if limit.kind in LIMITS_OF_KEYS else None
            columns = _limit_columns(limit, used, credits.get(workspace.id))
            rows.append((workspace.id, shown_key, limit.kind, limit.counter.period, *columns))
    return Table(LIMIT_COLUMNS, rows)


def find_limits_of(
    read_used: ReadUsed,
    workspaces: Iterable[Workspace],
    wanted: Filter,
    now: datetime,
    credits: Mapping[str, Credit],
) -> Table:
    """Return the limits of the wanted workspace and key: those of a key, and those of its whole workspace."""
    shown = [
        one
        for one in workspaces
        if wanted.workspace in (None, one.id) and wanted.key in (None, *(key.id for key in one.keys))
    ]
    table = find_limits(read_used, shown, now, credits)
    place = table.columns.index("key_id")
    return Table(
        table.columns, [row for row in table.rows if wanted.key is None or row[place] in (None, wanted.key)]
    )


def count_holds(ledger: Ledger, wanted: Filter) -> int:
    """Return how many calls are in flight, of all processes, by the holds in this file. Their time does not matter."""
    where, values = join_conditions(
        {
            "workspace = ?": wanted.workspace,
            "key_id = ?": wanted.key,
            "json_extract(interrupted_row, '$.model_slug') = ?": wanted.model,
            "json_extract(interrupted_row, '$.provider') = ?": wanted.provider,
        }
    )
    found: tuple[int] = ledger.execute(f"SELECT count(*) FROM holds WHERE {where}", values).fetchone()  # noqa: S608
    return found[0]


def make_limit_record(workspace: str, limit: Limit, used: CounterUse) -> dict[str, Any]:
    """Return a limit of a budget as ``find_limits`` does, with ``budget`` and ``value`` besides."""
    columns = _limit_columns(limit, used, None)
    row = (workspace, None, limit.kind, limit.counter.period, *columns)
    found = parse_scope(limit.counter.scope)
    return dict(zip(LIMIT_COLUMNS, row, strict=True)) | {"budget": found.budget, "value": found.value}


def _limit_columns(limit: Limit, used: CounterUse, credit: Credit | None) -> tuple[int | None, ...]:
    if limit.kind == "request_cap":
        left = limit.maximum - used.requests - used.in_flight
        return (None, None, None, None, used.requests, used.in_flight, limit.maximum, left)
    spent, cap = used.spent_nanousd, limit.maximum
    if limit.kind == "wallet":
        balance = -spent
        cap = find_wallet_cap(balance, credit.amount_nanousd if credit else 0)
        spent = cap - balance
    held = used.held_nanousd
    return (spent, held, cap, cap - spent - held, None, None, None, None)


def find_balances(read_used: ReadUsed, workspaces: Iterable[str]) -> Table:
    """Return each wallet's balance, the part that calls in flight hold, and the rest."""
    rows = []
    for workspace in workspaces:
        used = read_used(Limit("wallet", wallet_counter(workspace), 0), workspace, "")
        rows.append(
            (workspace, -used.spent_nanousd, used.held_nanousd, -used.spent_nanousd - used.held_nanousd)
        )
    return Table(("workspace", "balance_nanousd", "held_nanousd", "left_nanousd"), rows)


def find_entries(ledger: Ledger, workspace: str, limit: int, before: WalletEntry | None = None) -> Table:
    """Return the newest entries of a wallet with every column of the table, the newest first.

    With ``before``, return only entries that are older than this one.
    """
    place = (format_utc(before.created_at), before.id) if before else (AFTER_ALL, AFTER_ALL)
    sql = """
        SELECT * FROM wallet_entries WHERE workspace = ? AND (created_at, id) < (?, ?)
        ORDER BY created_at DESC, id DESC LIMIT ?
    """
    return _table(ledger.execute(sql, (workspace, *place, limit)))


def find_entry(ledger: Ledger, entry_id: str) -> WalletEntry | None:
    """Return one entry of a wallet, None when it does not exist."""
    row = ledger.execute(
        "SELECT id, created_at, workspace, amount_nanousd, reference FROM wallet_entries WHERE id = ?",
        (entry_id,),
    ).fetchone()
    return row and WalletEntry(row[0], datetime.fromisoformat(row[1]), *row[2:])


def count_rows(ledger: Ledger) -> dict[str, int]:
    """Return how many calls, wallet entries, wallets, counters, holds, price sets and refusals the file has."""
    counts = {
        "calls": "SELECT count(*) FROM usage",
        "wallet_entries": "SELECT count(*) FROM wallet_entries",
        "wallets": "SELECT count(DISTINCT workspace) FROM wallet_entries",
        "counters": "SELECT count(*) FROM spend",
        "holds": "SELECT count(*) FROM holds",
    }
    if has_table(ledger, "prices"):
        counts["price_sets"] = "SELECT count(*) FROM prices"
    if has_table(ledger, "refusals"):
        counts["refusals"] = "SELECT coalesce(sum(count), 0) FROM refusals"
    if has_table(ledger, "audit"):
        counts["audit_lines"] = "SELECT count(*) FROM audit"
    return {name: ledger.execute(sql).fetchone()[0] for name, sql in counts.items()}


def _table(cursor: Cursor) -> Table:
    return Table([column[0] for column in cursor.description], cursor.fetchall())
