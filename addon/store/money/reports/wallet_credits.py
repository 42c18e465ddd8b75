"""The last credit of each wallet. What is used and left of a wallet is counted from it, everywhere."""

import sqlite3
from collections.abc import Iterable
from typing import Final, NamedTuple

_INDEX: Final = "wallet_entries_credits"


class Credit(NamedTuple):
    """A credit of a wallet, with the id of its entry."""

    id: str
    amount_nanousd: int


def find_last_credits(connection: sqlite3.Connection, workspaces: Iterable[str]) -> dict[str, Credit]:
    """Return the last credit of each wallet. A wallet without one is left out."""
    # A gateway of an older version may have used the ledger last.
    has_index = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (_INDEX,)).fetchone()
    sql = (
        f"SELECT id, amount_nanousd FROM wallet_entries {f'INDEXED BY {_INDEX}' if has_index else ''}"  # noqa: S608
        " WHERE workspace = ? AND amount_nanousd > 0 ORDER BY created_at DESC, id DESC LIMIT 1"
    )
    found = {workspace: connection.execute(sql, (workspace,)).fetchone() for workspace in workspaces}
    return {workspace: Credit(*row) for workspace, row in found.items() if row}


def find_wallet_cap(balance_nanousd: int, credit_nanousd: int) -> int:
    """Return what counts as the whole of a wallet: its last credit (0 for none), or its balance if that is more."""
    return max(credit_nanousd, balance_nanousd)
