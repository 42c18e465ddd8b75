"""Rows, wallet entries and counts of refusals that are written to a ledger in SQLite without its counters.

Each function runs in the caller's transaction.
"""

import sqlite3

from addon.store.money.refusal_counts import RefusalBatch
from addon.store.money.refusals import record_refusals
from addon.store.money.settlements import follow_rows, write_entries, write_rows
from addon.store.money.sqlite.engine import SQLITE, run
from addon.store.protocol import Settlement, WalletEntry


def write_call(connection: sqlite3.Connection, settlement: Settlement) -> None:
    """Write a call's row with its price set, and the payment of its wallet."""
    for sql, values in follow_rows(run(connection, write_rows([settlement], SQLITE)), SQLITE):
        connection.execute(sql, values)


def write_entry(connection: sqlite3.Connection, entry: WalletEntry) -> bool:
    """Write an entry; return whether it is new."""
    return bool(run(connection, write_entries([entry], SQLITE)))


def write_batch(connection: sqlite3.Connection, batch: RefusalBatch) -> None:
    """Add a batch to the table of refusals, unless it was added before."""
    run(connection, record_refusals([batch], SQLITE))
