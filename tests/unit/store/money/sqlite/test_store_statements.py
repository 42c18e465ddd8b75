"""The statements of a start and of calls: none reads a table as a whole that grows with the calls.

So a ledger of years is as fast as a new one.
"""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig.ledger import second_connection
from rig.rollups import INTERRUPTED
from rig.stores import USD, WORKSPACE, call_row, credit, request, settlement, takes

from addon.store.money.sqlite.store import SqliteStore
from addon.store.money.sums.rollup_builder import LOOK_S, RollupBuilder
from addon.store.protocol import Settlement

GROWS = ("usage", "rollups", "days", "wallet_entries", "spend")


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The statements that every connection runs, with their values."""
    seen: list[str] = []
    connect = sqlite3.connect

    def traced(*args: object, **options: object) -> sqlite3.Connection:
        connection = connect(*args, **options)  # type: ignore[call-overload]
        connection.set_trace_callback(seen.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    yield seen
    monkeypatch.undo()


async def live(path: Path) -> None:
    """Start on a ledger that exists; make every step of a call, of its interruption, of a payment, of maintenance."""
    store = SqliteStore(path)
    await takes(store, WORKSPACE, 3)
    await store.credit(credit("paid", USD))
    await store.hold(request("a"))
    await store.move_hold(request("a", attempt=2))
    await store.settle(settlement("a"))
    await store.hold(request("b"))
    await store.void("b")
    await store.settle(Settlement(call_row("c", **INTERRUPTED), from_wallet=False))
    await store.settle(settlement("c"))
    await store.maintain()
    await store.check()
    await store.close()


async def test_no_statement_of_a_start_or_a_call_reads_a_growing_table_as_a_whole(
    ledger_path: Path, statements: list[str]
) -> None:
    await SqliteStore(ledger_path).close()
    statements.clear()
    await live(ledger_path)
    builder = RollupBuilder(ledger_path)
    while builder.step() != LOOK_S:
        pass
    builder.close()
    of_calls = [one for one in statements if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", one)]
    assert any("INSERT INTO usage" in one for one in of_calls)
    assert any("INSERT INTO days" in one for one in of_calls)
    with second_connection(ledger_path) as reader:
        plans = {
            sql: [row["detail"] for row in reader.execute(f"EXPLAIN QUERY PLAN {sql}")] for sql in of_calls
        }
    whole = [
        (sql, step)
        for sql, steps in plans.items()
        for step in steps
        if re.search(rf"\bSCAN ({'|'.join(GROWS)})\b", step)
    ]
    assert whole == []
