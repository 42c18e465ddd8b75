"""A store in SQLite: rows that settle, the operations that are refused, and a check for damage."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from addon.store.money.sqlite.store import SqliteStore
from addon.store.money.verify.verify import verify
from addon.store.protocol import Settlement, Store, StoreUnavailable
from rig.bounds import BOUND_S
from rig.ledger import make_row, second_connection
from rig.stores import WORKSPACE, credit, request, takes

OPERATIONS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "take": lambda store: takes(store, WORKSPACE, 10),
    "hold": lambda store: store.hold(request("refused")),
    "move": lambda store: store.move_hold(request("refused", attempt=2)),
    "credit": lambda store: store.credit(credit("refused", 1)),
    "check": lambda store: store.check(),
}


def ended(row_id: str = "call-0", **changes: Any) -> Settlement:
    """A call that ended and is not paid from a wallet."""
    return Settlement(make_row(row_id, **changes), from_wallet=False)


def open_settle_and_close(ledger_path: Path, *row_ids: str) -> None:
    """Settle calls in a store that is opened for them alone."""

    async def work() -> None:
        opened = SqliteStore(ledger_path)
        for row_id in row_ids:
            await opened.settle(ended(row_id))
        await opened.close()

    asyncio.run(work())


async def assert_all_refused(store: Store, reason: str) -> None:
    """Every operation is refused with ``reason``."""
    for operation in OPERATIONS.values():
        with pytest.raises(StoreUnavailable, match=reason):
            await asyncio.wait_for(operation(store), BOUND_S)


def assert_undamaged(ledger_path: Path) -> None:
    with second_connection(ledger_path) as reader:
        assert reader.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert verify(reader) == []
