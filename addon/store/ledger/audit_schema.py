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
