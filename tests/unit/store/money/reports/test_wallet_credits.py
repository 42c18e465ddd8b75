"""The last credit of a wallet, also in the ledger of an older version."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from addon.store.money.reports.wallet_credits import find_last_credits, find_wallet_cap
from addon.store.money.sqlite.migrations import migrate


@pytest.fixture
def ledger() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        migrate(connection)
        _write_entries(connection)
        yield connection


def _write_entries(connection: sqlite3.Connection) -> None:
    for name, day, amount in [("a", "01", 5), ("b", "02", 7), ("c", "03", -1), ("d", "04", -2)]:
        values = (name, f"2026-11-{day}T12:00:00.000+00:00", "acme", amount, "")
        connection.execute("INSERT INTO wallet_entries VALUES (?, ?, ?, ?, ?)", values)


def test_the_last_credit_is_found_without_reading_the_costs_of_calls(ledger: sqlite3.Connection) -> None:
    executed: list[str] = []
    ledger.set_trace_callback(executed.append)
    assert find_last_credits(ledger, ["acme", "none"]) == {"acme": ("b", 7)}
    plan = ledger.execute(f"EXPLAIN QUERY PLAN {executed[1]}").fetchall()
    assert "wallet_entries_credits" in str(plan)
    assert "TEMP B-TREE" not in str(plan).upper().replace("FOR LAST TERM", "")


def test_a_ledger_without_the_index_has_the_same_credits(ledger: sqlite3.Connection) -> None:
    ledger.execute("DROP INDEX wallet_entries_credits")
    assert find_last_credits(ledger, ["acme"]) == {"acme": ("b", 7)}


@pytest.mark.parametrize(
    ("balance", "credit", "cap"), [(3, 7, 7), (9, 7, 9), (-2, 7, 7), (0, 0, 0), (-2, 0, 0)]
)
def test_the_whole_of_a_wallet_is_its_last_credit_or_its_balance(balance: int, credit: int, cap: int) -> None:
    assert find_wallet_cap(balance, credit) == cap
