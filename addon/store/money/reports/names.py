"""The names that the ledger has: workspaces, keys, models, providers and wallets. Source: docs/ledger.md."""

import sqlite3

from addon.store.money.archives.archives import has_archives
from addon.store.money.reports.call_filter import Filter, join_conditions
from addon.store.money.reports.report import has_table
from addon.store.money.reports.sum_sources import find_days, find_hours, split_time
from addon.store.money.reports.totals import GROUPS


def find_names(connection: sqlite3.Connection, by: str, workspace: str | None = None) -> set[str]:
    """Return the names of a group, such as ``key``, that are in the ledger. Raises ``sqlite3.Error``.

    Calls and refused calls have names, and a wallet has the name of its workspace. ``workspace`` narrows the keys to
    those of one workspace.
    """
    column = GROUPS[by][-1]
    within = workspace if by == "key" else None
    if by == "workspace":
        found = set(find_recorded_workspaces(connection))
    else:
        found = find_called_names(connection, column, within)
    if by in {"workspace", "key"} and has_table(connection, "refusals"):
        where, values = ("workspace = ?", [within]) if within else ("workspace <> ''", [])
        sql = f"SELECT DISTINCT {column} FROM refusals WHERE {where}"  # noqa: S608
        found.update(name for (name,) in connection.execute(sql, values))
    return found


def find_called_names(connection: sqlite3.Connection, column: str, workspace: str | None = None) -> set[str]:
    """Return the values of a column that names a group of calls. Use ``find_recorded_workspaces`` for workspaces.

    They are read from the smallest sums that have the column.
    """
    found = set[str]()
    needed = [column] if workspace is None else [column, "workspace"]
    for part in split_time(connection, Filter(), find_days(needed), find_hours(needed)):
        within = {f"{part.source.moment} >= ?": part.begin or None, f"{part.source.moment} < ?": part.end}
        where, values = join_conditions({"workspace = ?": workspace} | within)
        sql = f"SELECT DISTINCT {column} FROM {part.source.table} WHERE {where}"  # noqa: S608
        found.update(name for (name,) in connection.execute(sql, values))
    return found


def find_recorded_workspaces(connection: sqlite3.Connection) -> list[str]:
    """Return the workspaces that have calls or wallet entries, sorted by name."""
    tables = _find_tables(connection)
    return sorted({name for table in tables for name in _step_workspaces(connection, table)})


def find_wallets(connection: sqlite3.Connection) -> list[str]:
    """Return the workspaces that have wallet entries, sorted by name."""
    return _step_workspaces(connection, "wallet_entries")


def _step_workspaces(connection: sqlite3.Connection, table: str) -> list[str]:
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
    return [name for (name,) in connection.execute(sql)]


def _find_tables(connection: sqlite3.Connection) -> list[str]:
    """Return the tables that name the workspaces of calls and credits, archived ones included."""
    return ["usage", "wallet_entries", *(["archived_workspaces"] if has_archives(connection) else [])]


def is_recorded_workspace(connection: sqlite3.Connection, workspace: str) -> bool:
    """Return whether the ledger has a call or a wallet entry of a workspace."""
    tables = _find_tables(connection)
    return any(
        connection.execute(f"SELECT 1 FROM {table} WHERE workspace = ? LIMIT 1", (workspace,)).fetchone()  # noqa: S608
        for table in tables
    )
