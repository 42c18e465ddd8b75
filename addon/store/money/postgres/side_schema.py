"""The tables of PostgreSQL beside calls: the audit log, alerts, and which process does what only one does.

What SQLite knows of itself, and checks of the audit log ask for, is here under the names of SQLite.
"""

from typing import Final

_TEXT: Final = 'text COLLATE "C"'
_AT: Final = f"{_TEXT} NOT NULL CHECK (at ~ '^[0-9]{{4}}(-[0-9]{{2}}){{2}}T[0-9:.]{{12}}[+]00:00$')"
_LINE: Final = f"""
    at {_AT},
    source {_TEXT} NOT NULL,
    address {_TEXT} NOT NULL,
    session {_TEXT} NOT NULL,
    action {_TEXT} NOT NULL CHECK (action <> ''),
    workspace {_TEXT} NOT NULL,
    subject {_TEXT},
    change {_TEXT} NOT NULL
"""

CATALOG: Final = (
    """
    CREATE VIEW sqlite_schema AS
    SELECT CASE WHEN relkind IN ('i', 'I') THEN 'index' ELSE 'table' END AS type, relname::text AS name,
        coalesce(indrelid::regclass, pg_class.oid::regclass)::text AS tbl_name
    FROM pg_class LEFT JOIN pg_index ON indexrelid = pg_class.oid
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'i', 'I')
    UNION ALL
    SELECT 'trigger', tgname::text, relname::text FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
    WHERE relnamespace = current_schema()::regnamespace AND NOT tgisinternal AND tgenabled <> 'D'
    """,
    """
    CREATE FUNCTION pragma_table_info(text) RETURNS TABLE (name text) LANGUAGE sql STABLE
    AS $$
        SELECT attname::text FROM pg_attribute
        WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped
    $$
    """,
    "CREATE VIEW pragma_page_size AS SELECT current_setting('block_size')::bigint AS page_size",
    """
    CREATE VIEW pragma_page_count AS
    SELECT pg_database_size(current_database()) / page_size AS page_count FROM pragma_page_size
    """,
    # The largest number that a line of the audit log ever had.
    f"CREATE TABLE sqlite_sequence (name {_TEXT} PRIMARY KEY, seq bigint NOT NULL)",
    "INSERT INTO sqlite_sequence VALUES ('audit', 0)",
)
"""The statements that make what SQLite has by itself, in order."""

_REFUSE: Final = (
    "RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'integrity_constraint_violation'"
)

AUDIT: Final = (
    f"""
    CREATE TABLE audit (
        number bigint PRIMARY KEY,
        {_LINE.replace("address", f'"user" {_TEXT} NOT NULL, address')},
        outcome {_TEXT} NOT NULL CHECK (outcome IN ('made', 'unknown')),
        id {_TEXT} UNIQUE,
        hash {_TEXT} NOT NULL CHECK (length(hash) = 64)
    )
    """,
    "CREATE INDEX audit_workspace ON audit (workspace, number)",
    f"""
    CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN {_REFUSE}; END $$
    """,
    f"""
    CREATE FUNCTION audit_append() RETURNS trigger LANGUAGE plpgsql
    AS $$
    BEGIN
        UPDATE sqlite_sequence SET seq = NEW.number WHERE name = 'audit' AND seq < NEW.number;
        IF NOT FOUND THEN {_REFUSE}; END IF;
        RETURN NEW;
    END
    $$
    """,  # noqa: S608
    "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit EXECUTE FUNCTION audit_refuse()",
    "CREATE TRIGGER audit_no_delete BEFORE DELETE OR TRUNCATE ON audit EXECUTE FUNCTION audit_refuse()",
    "CREATE TRIGGER audit_no_insert BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION audit_append()",
    f"CREATE TABLE audit_intents (id {_TEXT} PRIMARY KEY, {_LINE}, evidence {_TEXT} NOT NULL)",
)
"""The statements that make the audit log. Its lines can't be changed, and its numbers only grow."""

ALERTS: Final = (
    f"""
    CREATE TABLE alerts (
        id {_TEXT} PRIMARY KEY,
        created_at {_TEXT} NOT NULL,
        type {_TEXT} NOT NULL,
        workspace {_TEXT},
        status {_TEXT} NOT NULL CHECK (status IN ('waiting', 'sent', 'dropped', 'unsent')),
        attempts bigint NOT NULL,
        next_at {_TEXT},
        ended_at {_TEXT},
        answer {_TEXT},
        body {_TEXT} NOT NULL,
        rowid bigint GENERATED ALWAYS AS IDENTITY
    )
    """,
    "CREATE INDEX alerts_status ON alerts (status, next_at)",
    f"CREATE TABLE alert_marks (name {_TEXT} PRIMARY KEY, value {_TEXT} NOT NULL)",
    # Which process does a work that only one does, by the clock of PostgreSQL.
    f"""
    CREATE TABLE leaders (work {_TEXT} PRIMARY KEY, owner {_TEXT} NOT NULL, ends_at timestamptz NOT NULL)
    WITH (fillfactor = 10)
    """,
)
"""The statements that make the queue of alerts, and the leases of works."""

SIDE_SCHEMA: Final = (*CATALOG, *AUDIT, *ALERTS)
