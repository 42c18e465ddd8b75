"""Money for tests: credit a wallet, and read the store's tables of a running gateway."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from addon.store.money.sqlite.store import SqliteStore
from addon.store.protocol import WalletEntry
from policies.money import parse_usd_nanousd
from rig.bounds import BOUND_S

USD = 10**9


def credit(ledger: Path, workspace: str, usd: str, reference: str = "test") -> None:
    """Put ``usd`` into a wallet of the SQLite store at ``ledger``, as another process."""

    async def enter() -> None:
        store = SqliteStore(ledger)
        try:
            moment = datetime.now(UTC)
            entry = WalletEntry(
                f"{workspace}/{reference}", moment, workspace, parse_usd_nanousd(usd), reference
            )
            assert await store.credit(entry), "this reference was credited before"
        finally:
            await store.close()

    asyncio.run(enter())


def select(ledger: Path, sql: str, *values: Any) -> list[dict[str, Any]]:
    """Return rows of any table, read over a separate connection."""
    with closing(
        sqlite3.connect(f"{ledger.absolute().as_uri()}?mode=ro", uri=True, timeout=BOUND_S)
    ) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(sql, values)]


def spent(ledger: Path, scope: str, period: str = "ever") -> tuple[int, int]:
    """Return the value of a counter: nano-USD and requests."""
    rows = select(ledger, "SELECT * FROM spend WHERE scope = ? AND period = ?", scope, period)
    return (rows[0]["spent_nanousd"], rows[0]["requests"]) if rows else (0, 0)


def holds(ledger: Path) -> list[dict[str, Any]]:
    """Return the holds that exist now."""
    return select(ledger, "SELECT * FROM holds ORDER BY created_at")
