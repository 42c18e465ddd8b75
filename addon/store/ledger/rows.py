"""The ledger's rows and wallet entries, as both stores write them. Each function runs in the caller's transaction.

All raise ``sqlite3.Error``. Source: docs/ledger.md.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from addon.store.ledger.connection import NEVER_WRITABLE
from addon.store.ledger.early_migration_steps import LARGEST
from addon.store.ledger.price_set_schema import NOT_KEPT
from addon.store.ledger.priced_columns import PRICED_COLUMNS
from addon.store.protocol import IllegalRowError, Settlement, WalletEntry
from policies.exchange import INTERRUPTED, PRICE_SET_CONTENT
from policies.utc_time import format_utc

type Row = Mapping[str, Any]

USAGE_COLUMNS = (
    "id",
    "created_at",
    "workspace",
    "key_id",
    "requested_model",
    "model_slug",
    "provider",
    "upstream_model_id",
    "mode",
    "fallback",
    "attempts",
    "stream",
    "status",
    "error_code",
    "finish_reason",
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "usage_source",
    "wholesale_nanousd",
    "retail_nanousd",
    "first_byte_ms",
    "duration_ms",
    "end_user",
    "cache_write_tokens",
    "client_request_id",
    "resends",
    *PRICED_COLUMNS,
    "price_set",
    "platform_key",
)

CALL = "call"
"""The ``reference`` of a wallet entry for the cost of a call. Its ``id`` is the id of the call."""

WAS_INTERRUPTED = f"error_code IS '{INTERRUPTED}' AND usage_source = 'none' AND duration_ms = 0"
"""The SQL condition for the row of a dead process: only such a row has the duration 0."""

# A row of an older version, in a hold or an outbox, lacks the columns that were added later.
_LATER_COLUMNS = {
    "cache_write_tokens": None,
    "client_request_id": None,
    "resends": 0,
    **dict.fromkeys(PRICED_COLUMNS),
    "price_set": NOT_KEPT,
    "platform_key": None,
    PRICE_SET_CONTENT: None,
}


def write_call(connection: sqlite3.Connection, settlement: Settlement) -> tuple[Row, int | None]:
    """Write a call's row with its price set, and the payment of its wallet.

    Return the row as written, and how many calls it adds to the counters: None when it was written before.
    """
    row: Row = {**_LATER_COLUMNS, **settlement.row}
    try:
        calls = _write_row(connection, row)
    except (sqlite3.IntegrityError, OverflowError, UnicodeEncodeError):
        # Nearly every row is valid, so it is repaired only here. A client's text or a provider's counts must not
        # keep a call out of the ledger.
        row = make_storable(row)
        calls = _write_row(connection, row)
    if calls is not None and row[PRICE_SET_CONTENT] is not None:
        priced = (row["price_set"], row["created_at"], row["model_slug"], row[PRICE_SET_CONTENT])
        connection.execute(_INSERT_PRICES, priced)
    if calls is not None and settlement.from_wallet and row["retail_nanousd"]:
        paid = (row["id"], row["created_at"], row["workspace"], -row["retail_nanousd"], CALL)
        connection.execute("INSERT INTO wallet_entries VALUES (?, ?, ?, ?, ?)", paid)
    return row, calls


def find_recorded(connection: sqlite3.Connection, call_ids: Iterable[str]) -> set[str]:
    """Return the ids among ``call_ids`` that have a row."""
    sql = "SELECT id FROM usage WHERE id IN (SELECT value FROM json_each(?))"
    return {call_id for (call_id,) in connection.execute(sql, (json.dumps(list(call_ids)),))}


def write_entry(connection: sqlite3.Connection, entry: WalletEntry) -> bool:
    """Write an entry; return whether it is new."""
    written = connection.execute(
        "INSERT INTO wallet_entries VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        (entry.id, format_utc(entry.created_at), entry.workspace, entry.amount_nanousd, entry.reference),
    )
    return bool(written.rowcount)


_INSERT = (
    f"INSERT INTO usage ({', '.join(USAGE_COLUMNS)}) VALUES ({', '.join('?' * len(USAGE_COLUMNS))})"  # noqa: S608
    " ON CONFLICT (id) DO NOTHING"
)
# A set that a later version names otherwise must not keep the call out of the ledger.
_INSERT_PRICES = "INSERT OR IGNORE INTO prices VALUES (?, ?, ?, ?)"
_REPLACE = (
    f"UPDATE usage SET {', '.join(f'{name} = :{name}' for name in USAGE_COLUMNS)}"  # noqa: S608
    f" WHERE id = :id AND {WAS_INTERRUPTED}"
)


def _write_row(connection: sqlite3.Connection, row: Row) -> int | None:
    try:
        values = [row[name] for name in USAGE_COLUMNS]
    except KeyError as error:
        raise sqlite3.ProgrammingError(f"it has no {error}") from error
    if connection.execute(_INSERT, values).rowcount:
        return 1
    # The call counted as interrupted but lived: its request was counted, its cost was not.
    return 0 if connection.execute(_REPLACE, row).rowcount else None


def encode_row(row: Row) -> str:
    """Return a row as JSON, for ``Settlement``."""
    try:
        return msgspec.json.encode(row).decode()
    except (UnicodeEncodeError, OverflowError):
        # It has half a surrogate pair of a client, or a number of more than 64 bits.
        return json.dumps(make_storable(row))


def make_storable(row: Row) -> dict[str, Any]:
    """Return ``row`` with counts limited to ``LARGEST`` and lone surrogates, which are no valid text, replaced."""
    return {name: _storable_value(value) for name, value in row.items()}


def _storable_value(value: Any) -> Any:
    if isinstance(value, int):
        return min(value, LARGEST)
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


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
        self._connection.execute("BEGIN")
        try:
            row, _ = write_call(self._connection, settlement)
            return Settlement(row, settlement.from_wallet)
        except NEVER_WRITABLE as error:
            raise IllegalRowError(f"usage row {settlement.row.get('id')}: {error}") from error
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
