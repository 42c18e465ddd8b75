"""The last credit of each wallet. What is used and left of a wallet is counted from it, everywhere."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from addon.store.money.ledger import Ledger

_LAST_CREDIT: Final = """
    SELECT id, amount_nanousd FROM wallet_entries
    WHERE workspace = ? AND amount_nanousd > 0 ORDER BY created_at DESC, id DESC LIMIT 1
"""
"""Both engines read it from the index ``wallet_entries_credits``, where there is one."""


class Credit(NamedTuple):
    """A credit of a wallet, with the id of its entry."""

    id: str
    amount_nanousd: int


def find_last_credits(ledger: Ledger, workspaces: Iterable[str]) -> dict[str, Credit]:
    """Return the last credit of each wallet. A wallet without one is left out."""
    found = {workspace: ledger.execute(_LAST_CREDIT, (workspace,)).fetchone() for workspace in workspaces}
    return {workspace: Credit(*row) for workspace, row in found.items() if row}


def find_wallet_cap(balance_nanousd: int, credit_nanousd: int) -> int:
    """Return what counts as the whole of a wallet: its last credit (0 for none), or its balance if that is more."""
    return max(credit_nanousd, balance_nanousd)
