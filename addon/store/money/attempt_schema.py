"""The table ``attempts``: one line for each attempt of a call that made several. Source: docs/ledger.md."""

from typing import Final

from addon.store.money.engine import Table
from policies.attempt_ends import AttemptEnd

# What is wrong with an attempt must not keep the call out of the ledger.
ATTEMPTS: Final = Table("attempts", ("call_id", "created_at", *AttemptEnd._fields), "lenient")
"""``created_at`` is that of the call: both are in the same month, also in archives."""

ATTEMPT_SCHEMA: Final = (
    """
        CREATE TABLE attempts (
            call_id TEXT NOT NULL,
            created_at TEXT NOT NULL,
            number INTEGER NOT NULL CHECK (number >= 1),
            provider TEXT NOT NULL,
            deployment TEXT NOT NULL,
            mode TEXT NOT NULL CHECK (mode IN ('payg', 'byok')),
            platform_key INTEGER,
            status INTEGER NOT NULL CHECK (status BETWEEN 100 AND 599),
            error_code TEXT,
            duration_ms INTEGER NOT NULL CHECK (duration_ms >= 0),
            PRIMARY KEY (call_id, number)
        ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX attempts_created_at ON attempts (created_at)",
)
"""The SQL statements that create the table in SQLite, in order."""
