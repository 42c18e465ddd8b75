"""The table of the ids that clients gave their calls, and its triggers on ``usage``. Never edited once released. Pure.

It is a table and no index of ``usage``: SQLite makes an index in one step, which would block the calls of a large
ledger for seconds. ``RollupBuilder`` adds the rows of an older ledger in short steps.
"""

from typing import Final

_ADD: Final = """
        INSERT INTO client_requests SELECT NEW.client_request_id, NEW.created_at, NEW.id
        WHERE NEW.client_request_id IS NOT NULL ON CONFLICT DO NOTHING
    """.strip()

_REMOVE: Final = """
        DELETE FROM client_requests
        WHERE client_request_id = OLD.client_request_id AND created_at = OLD.created_at AND id = OLD.id
    """.strip()

CLIENT_REQUEST_SCHEMA: Final = (
    "ALTER TABLE rollup_progress ADD COLUMN client_ids_from TEXT NOT NULL DEFAULT ''",
    "UPDATE rollup_progress SET client_ids_from = coalesce((SELECT max(created_at) || '~' FROM usage), '')",
    """
        CREATE TABLE client_requests (
            client_request_id TEXT NOT NULL,
            created_at TEXT NOT NULL,
            id TEXT NOT NULL,
            PRIMARY KEY (client_request_id, created_at, id)
        ) STRICT, WITHOUT ROWID
    """,
    f"""
        CREATE TRIGGER client_requests_INSERT AFTER INSERT ON usage WHEN NEW.client_request_id IS NOT NULL
        BEGIN {_ADD}; END
    """,
    f"""
        CREATE TRIGGER client_requests_UPDATE AFTER UPDATE OF id, created_at, client_request_id ON usage
        WHEN (OLD.client_request_id, OLD.created_at, OLD.id) IS NOT (NEW.client_request_id, NEW.created_at, NEW.id)
        BEGIN {_REMOVE}; {_ADD}; END
    """,
    f"""
        CREATE TRIGGER client_requests_DELETE AFTER DELETE ON usage WHEN OLD.client_request_id IS NOT NULL
        BEGIN {_REMOVE}; END
    """,
)
"""The SQL statements that create the table and its triggers, in order."""

CLIENT_REQUEST_BUILD: Final = """
        INSERT INTO client_requests SELECT client_request_id, created_at, id FROM usage
        WHERE created_at >= ? AND created_at < ? AND client_request_id IS NOT NULL ON CONFLICT DO NOTHING
    """
"""Adds the rows from one moment up to another. A row that is there already stays."""
