"""Rows and wallet entries without the counters, in the caller's transaction."""

import sqlite3

from addon.store.money.settlements import follow_rows, write_entries, write_rows
from addon.store.money.sqlite.connection import NEVER_WRITABLE
from addon.store.money.sqlite.engine import SQLITE, run
from addon.store.protocol import Settlement, WalletEntry

UNSTORABLE = (*NEVER_WRITABLE, OverflowError, UnicodeEncodeError)
"""The errors for a row that may be written once it is repaired. ``addon.store.money.rows.make_storable``."""


def write_call(connection: sqlite3.Connection, settlement: Settlement) -> None:
    """Write a call's row with its price set, and the payment of its wallet.

    Raises ``IllegalRowError``, ``UNSTORABLE``, ``sqlite3.Error``.
    """
    written = run(connection, write_rows([settlement], SQLITE))
    for sql, values in follow_rows(written, SQLITE):
        connection.execute(sql, values)


def write_entry(connection: sqlite3.Connection, entry: WalletEntry) -> bool:
    """Write an entry; return whether it is new. Raises ``sqlite3.Error``."""
    return bool(run(connection, write_entries([entry], SQLITE)))
