"""A check of rows before they go to Redis, and the rows that the ledger has."""

import json
import sqlite3
from collections.abc import Iterable

from addon.store.money.rows import complete_row, make_storable
from addon.store.money.sqlite.connection import NEVER_WRITABLE
from addon.store.money.sqlite.rows import UNSTORABLE, write_call, write_entry
from addon.store.protocol import IllegalRowError, Settlement, WalletEntry


def find_recorded(connection: sqlite3.Connection, call_ids: Iterable[str]) -> set[str]:
    """Return the ids among ``call_ids`` that have a row."""
    sql = "SELECT id FROM usage WHERE id IN (SELECT value FROM json_each(?))"
    return {call_id for (call_id,) in connection.execute(sql, (json.dumps(list(call_ids)),))}


class RowChecker:
    """A check of rows against empty tables like those of ``ledger``, in memory: it refuses what ``ledger`` would.

    Raises ``sqlite3.Error``.
    """

    def __init__(self, ledger: sqlite3.Connection) -> None:
        # Only these get rows. The triggers are not copied: every row is rolled back, so no sum of it is needed.
        tables = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name IN ('usage', 'wallet_entries', 'prices')"
        statements = ledger.execute(tables).fetchall()
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        for (statement,) in statements:
            self._connection.execute(statement)

    def check_call(self, settlement: Settlement) -> Settlement:
        """Return the settlement with its row as it will be written. Raise ``IllegalRowError`` when it can't be."""
        row = complete_row(settlement.row)
        try:
            self._write(Settlement(row, settlement.from_wallet))
        except UNSTORABLE:
            row = make_storable(row)
            try:
                self._write(Settlement(row, settlement.from_wallet))
            except NEVER_WRITABLE as error:
                raise IllegalRowError(f"usage row {row['id']}: {error}") from error
        return Settlement(row, settlement.from_wallet)

    def _write(self, settlement: Settlement) -> None:
        self._connection.execute("BEGIN")
        try:
            write_call(self._connection, settlement)
        finally:
            self._connection.execute("ROLLBACK")

    def check_entry(self, entry: WalletEntry) -> None:
        """Raise ``IllegalRowError`` for an entry that can't be written."""
        self._connection.execute("BEGIN")
        try:
            write_entry(self._connection, entry)
        except NEVER_WRITABLE as error:
            raise IllegalRowError(f"wallet entry {entry.id}: {error}") from error
        finally:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()
