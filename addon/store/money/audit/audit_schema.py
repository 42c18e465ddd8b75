"""The tables of the audit log. Like a released step of a migration, they are never edited. Pure."""

from typing import Final

_COLUMNS: Final = """
            at TEXT NOT NULL CHECK (at GLOB '????-??-??T??:??:??.???+00:00'),
            source TEXT NOT NULL,
            address TEXT NOT NULL,
            session TEXT NOT NULL,
            action TEXT NOT NULL CHECK (action <> ''),
            workspace TEXT NOT NULL,
            subject TEXT,
            change TEXT NOT NULL
    """.strip()

_AUDIT: Final = f"""
        CREATE TABLE audit (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            {_COLUMNS},
            outcome TEXT NOT NULL CHECK (outcome IN ('made', 'unknown'))
        ) STRICT
    """

_INTENTS: Final = f"""
        CREATE TABLE audit_intents (
            id TEXT NOT NULL PRIMARY KEY,
            {_COLUMNS},
            -- How to find out whether the change was made, as JSON.
            evidence TEXT NOT NULL
        ) STRICT, WITHOUT ROWID
    """


def _refuse(operation: str, when: str = "") -> str:
    """Return the SQL of the trigger that refuses an operation on the table."""
    return (
        f"CREATE TRIGGER audit_no_{operation} BEFORE {operation} ON audit {when}"
        " BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"
    )


AUDIT_SCHEMA: Final = (
    _AUDIT,
    "CREATE INDEX audit_workspace ON audit (workspace, number)",
    _refuse("UPDATE"),
    _refuse("DELETE"),
    # REPLACE deletes a row without the trigger of DELETE, so an insertion is checked, too.
    _refuse("INSERT", "WHEN EXISTS (SELECT 1 FROM audit WHERE number = NEW.number)"),
    _INTENTS,
)
"""The SQL statements that create the tables, in order."""

_CHAINED: Final = f"""
        CREATE TABLE audit (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            {_COLUMNS.replace("source TEXT NOT NULL,", "source TEXT NOT NULL,\n            user TEXT NOT NULL,")},
            outcome TEXT NOT NULL CHECK (outcome IN ('made', 'unknown')),
            id TEXT UNIQUE,
            hash TEXT NOT NULL CHECK (length(hash) = 64)
        ) STRICT
    """
"""The table of ``audit_chain``. An earlier version that still runs can't write to it: it knows no ``hash``."""

BEFORE_CHAIN: Final = (
    *(f"DROP TRIGGER audit_no_{operation}" for operation in ("UPDATE", "DELETE", "INSERT")),
    "DROP INDEX audit_workspace",
    "ALTER TABLE audit RENAME TO audit_before",
)
"""The SQL statements that put the table of the version before out of the way, in order."""

CHAIN_SCHEMA: Final = (_CHAINED, *AUDIT_SCHEMA[1:-1])
"""The SQL statements that create the table with the chain, in order."""
