"""The tables of archived months in PostgreSQL, as in SQLite: ``archives.archive_schema``. Pure."""

from typing import Final

_TEXT: Final = 'text COLLATE "C"'
ARCHIVE_TABLES: Final = (
    f"""
    CREATE TABLE archives (
        month {_TEXT} PRIMARY KEY CHECK (month ~ '^[0-9]{{4}}-[0-9]{{2}}$'),
        file {_TEXT} NOT NULL,
        next_sha256 {_TEXT},
        file_sha256 {_TEXT},
        archived_at {_TEXT},
        calls bigint,
        wholesale_nanousd bigint,
        retail_nanousd bigint,
        reported_nanousd bigint,
        charges bigint,
        charged_nanousd bigint,
        sums_sha256 {_TEXT}
    )
    """,
    f"""
    CREATE TABLE archived_workspaces (
        workspace {_TEXT} NOT NULL,
        month {_TEXT} NOT NULL,
        calls bigint NOT NULL,
        charges bigint NOT NULL,
        amount_nanousd bigint NOT NULL,
        PRIMARY KEY (workspace, month)
    )
    """,
    f"CREATE TABLE late_calls (id {_TEXT} PRIMARY KEY)",
    f"CREATE TABLE archive_removal (month {_TEXT} PRIMARY KEY)",
)
"""The statements that create the tables, in order. The triggers on ``usage`` are in ``sum_schema``."""
