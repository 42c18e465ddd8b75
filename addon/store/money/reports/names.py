"""The names that the ledger has: workspaces, keys, models, providers and wallets. Source: docs/ledger.md."""

from addon.store.money.archives.archives import has_archives
from addon.store.money.ledger import Ledger
from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.report import has_table
from addon.store.money.reports.sum_sources import find_days, find_hours, split_time
from addon.store.money.reports.totals import GROUPS


def find_names(ledger: Ledger, by: str, workspace: str | None = None) -> set[str]:
    """Return the names of a group, such as ``key``, that are in the ledger.

    Calls and refused calls have names, and a wallet has the name of its workspace. ``workspace`` narrows the keys to
    those of one workspace.
    """
    column = GROUPS[by][-1]
    within = workspace if by == "key" else None
    is_kept = by == "workspace"
    found = set(find_recorded_workspaces(ledger)) if is_kept else find_called_names(ledger, column, within)
    if by in {"workspace", "key"} and has_table(ledger, "refusals"):
        where, values = ("workspace = ?", [within]) if within else ("workspace <> ''", [])
        sql = f"SELECT DISTINCT {column} FROM refusals WHERE {where}"  # noqa: S608
        found.update(name for (name,) in ledger.execute(sql, values))
    return found


def find_called_names(ledger: Ledger, column: str, workspace: str | None = None) -> set[str]:
    """Return the values of a column that names a group of calls. Use ``find_recorded_workspaces`` for workspaces.

    They are read from the smallest sums that have the column.
    """
    found = set[str]()
    wanted = Filter(workspace)
    needed = [column, *wanted.columns()]
    for part in split_time(ledger, wanted, find_days(needed), find_hours(needed)):
        where, values = part.select(wanted)
        sql = f"SELECT DISTINCT {column} FROM {part.source.table} WHERE {where}"  # noqa: S608
        found.update(name for (name,) in ledger.execute(sql, values))
    return found


def find_recorded_workspaces(ledger: Ledger) -> list[str]:
    """Return the workspaces that have calls or wallet entries, sorted by name."""
    tables = _find_tables(ledger)
    return sorted({name for table in tables for name in _step_workspaces(ledger, table)})


def find_wallets(ledger: Ledger) -> list[str]:
    """Return the workspaces that have wallet entries, sorted by name."""
    return _step_workspaces(ledger, "wallet_entries")


def _step_workspaces(ledger: Ledger, table: str) -> list[str]:
    """Return the workspaces of a table, sorted by name.

    Each name is one step in an index, however many rows it has. ``SELECT DISTINCT`` would read all of the index.
    """
    sql = f"""
        WITH RECURSIVE named (name) AS (
            SELECT min(workspace) FROM {table}
            UNION ALL
            SELECT (SELECT min(workspace) FROM {table} WHERE workspace > name) FROM named WHERE name IS NOT NULL
        )
        SELECT name FROM named WHERE name IS NOT NULL
    """  # noqa: S608
    return [name for (name,) in ledger.execute(sql)]


def _find_tables(ledger: Ledger) -> list[str]:
    """Return the tables that name the workspaces of calls and credits, archived ones included."""
    return ["usage", "wallet_entries", *(["archived_workspaces"] if has_archives(ledger) else [])]


def is_recorded_workspace(ledger: Ledger, workspace: str) -> bool:
    """Return whether the ledger has a call or a wallet entry of a workspace."""
    tables = _find_tables(ledger)
    return any(
        ledger.execute(f"SELECT 1 FROM {table} WHERE workspace = ? LIMIT 1", (workspace,)).fetchone()  # noqa: S608
        for table in tables
    )
