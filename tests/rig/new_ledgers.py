"""New ledgers of the test process and of the fork server's children: each begins as a copy of a migrated one.

To apply all steps takes 24 ms of CPU, and a thousand tests have a ledger of their own. Gateways and commands in new
interpreters make theirs step by step.
"""

import secrets
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

from addon.store.money.sqlite import connection as ledger_connection
from addon.store.money.sqlite import migrations


def copy_new_ledgers() -> None:
    """Let each file that a ledger is opened in for the first time, and each one in memory, begin as the copy."""
    create, find_pending = ledger_connection._create, migrations.find_pending
    content, ledger_id = _migrated_ledger()

    def make_copy() -> bytes:
        # Ledgers with the same id would share their counters in Redis.
        return content.replace(ledger_id, secrets.token_hex(16).encode())

    def create_copy(path: Path) -> None:
        is_new = not path.exists()
        create(path)
        if is_new:
            path.write_bytes(make_copy())

    def find_pending_of_copy(connection: sqlite3.Connection) -> list[str]:
        if _is_empty_in_memory(connection):
            connection.deserialize(make_copy())
        return find_pending(connection)

    ledger_connection._create = create_copy
    migrations.find_pending = find_pending_of_copy


def _migrated_ledger() -> tuple[bytes, bytes]:
    """Return a ledger without rows and its id. It has no journal of its own kind, which one in memory can't have."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "ledger.db")
        connection = ledger_connection.open_connection(path)
        connection.execute("PRAGMA journal_mode = DELETE")
        (ledger_id,) = connection.execute("SELECT id FROM ledger").fetchone()
        connection.close()
        return path.read_bytes(), ledger_id.encode()


def _is_empty_in_memory(connection: sqlite3.Connection) -> bool:
    file = connection.execute("PRAGMA database_list").fetchone()[2]
    return not file and connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
