"""The tables of archived months, and the triggers that know of them. Never edited once released. Pure.

Source: docs/ledger.md, docs/decisions/archived-sums-stay-verifiable.md.
"""

from typing import Final

ARCHIVE_SCHEMA: Final = (
    # Of a ledger that is the archive of one month: which one. Its ``id`` is that of the ledger that it is from.
    "ALTER TABLE ledger ADD COLUMN archived_month TEXT",
    """
        CREATE TABLE archives (
            month TEXT NOT NULL PRIMARY KEY CHECK (month GLOB '????-??'),
            -- Where the file was put.
            file TEXT NOT NULL,
            -- The digest of a file that is about to be put there.
            next_sha256 TEXT,
            -- All these are null until a file is there: then they are of its rows.
            file_sha256 TEXT,
            archived_at TEXT,
            calls INTEGER,
            wholesale_nanousd INTEGER,
            retail_nanousd INTEGER,
            reported_nanousd INTEGER,
            charges INTEGER,
            charged_nanousd INTEGER,
            -- The digest of the sums of each table, as JSON.
            sums_sha256 TEXT
        ) STRICT, WITHOUT ROWID
    """,
    """
        CREATE TABLE archived_workspaces (
            workspace TEXT NOT NULL,
            month TEXT NOT NULL,
            calls INTEGER NOT NULL,
            -- The costs that its wallet paid, as in ``wallet_entries``: negative.
            charges INTEGER NOT NULL,
            amount_nanousd INTEGER NOT NULL,
            PRIMARY KEY (workspace, month)
        ) STRICT, WITHOUT ROWID
    """,
    # Calls that came into a month after its file was made.
    "CREATE TABLE late_calls (id TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID",
    # It has a row only inside a transaction that removes calls which a file has.
    "CREATE TABLE archive_removal (month TEXT NOT NULL) STRICT",
    """
        CREATE TRIGGER late_calls_INSERT AFTER INSERT ON usage
        WHEN substr(NEW.created_at, 1, 7) IN (SELECT month FROM archives)
        BEGIN INSERT INTO late_calls VALUES (NEW.id) ON CONFLICT DO NOTHING; END
    """,
    """
        CREATE TRIGGER late_calls_DELETE AFTER DELETE ON usage
        WHEN substr(OLD.created_at, 1, 7) IN (SELECT month FROM archives)
        BEGIN DELETE FROM late_calls WHERE id = OLD.id; END
    """,
)
"""The SQL statements that create the tables and the triggers, in order."""

IS_KEPT: Final = "NOT EXISTS (SELECT 1 FROM archive_removal)"
"""The condition for a deleted call to be taken out of the sums: it is removed for good, and not into a file."""
