"""The tables of PostgreSQL that machines share beside money: workspace files, and which keys are revoked."""

from typing import Final

_TEXT: Final = 'text COLLATE "C"'
_HASH: Final = f"{_TEXT} NOT NULL CHECK (hash ~ '^[0-9a-f]{{64}}$')"

FLEET_SCHEMA: Final = (
    # It grows with each change of the other tables, so that a machine asks for one number, once a second.
    # ``mark`` differs when a server that was restored counts again.
    f"CREATE TABLE fleet_version (version bigint NOT NULL, mark {_TEXT} NOT NULL)",
    "INSERT INTO fleet_version VALUES (0, gen_random_uuid()::text)",
    f"""
    CREATE TABLE workspace_files (
        id {_TEXT} PRIMARY KEY,
        text {_TEXT} NOT NULL,
        digest {_TEXT} NOT NULL,
        version bigint NOT NULL,
        changed_at {_TEXT} NOT NULL,
        changed_by {_TEXT} NOT NULL,
        deleted bigint NOT NULL CHECK (deleted IN (0, 1))
    )
    """,
    f"""
    CREATE TABLE revoked_keys (
        hash {_HASH} PRIMARY KEY,
        workspace {_TEXT} NOT NULL,
        key_id {_TEXT} NOT NULL,
        revoked_at {_TEXT} NOT NULL,
        revoked_by {_TEXT} NOT NULL
    )
    """,
    # The gateways that share the ledger, as each last described itself.
    f"""
    CREATE TABLE machines (
        name {_TEXT} PRIMARY KEY,
        seen_at timestamptz NOT NULL,
        version {_TEXT} NOT NULL,
        settings {_TEXT} NOT NULL,
        workers bigint NOT NULL,
        calls bigint NOT NULL,
        files {_TEXT} NOT NULL
    ) WITH (fillfactor = 50)
    """,
    # Which machine's files claim which key, since when by the clock of PostgreSQL.
    f"""
    CREATE TABLE key_claims (
        hash {_HASH},
        workspace {_TEXT} NOT NULL,
        machine {_TEXT} NOT NULL,
        claimed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        PRIMARY KEY (hash, workspace, machine)
    )
    """,
    "CREATE INDEX key_claims_machine ON key_claims (machine)",
)
"""The statements that create the tables, in order."""
