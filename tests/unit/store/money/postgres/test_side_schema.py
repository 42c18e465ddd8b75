"""PostgreSQL knows of its tables what SQLite knows, under the same names, and keeps the audit log append-only."""

from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from addon.store.money.ledger import LedgerPlace
from addon.store.money.postgres.ledger import PostgresPlace

LINE = "'2026-01-31T12:00:00.000+00:00', 'command', '', '', 'keys set', 'acme', NULL, 'x', 'root', 'made'"
APPEND = f"""
    INSERT INTO audit (
        number, at, source, address, session, action, workspace, subject, change, "user", outcome, hash
    ) VALUES (?, {LINE}, ?)
"""


@pytest.fixture
def ledger(postgres_ledger_url: str) -> LedgerPlace:
    return PostgresPlace(SecretStr(postgres_ledger_url))


def read(ledger: LedgerPlace, sql: str) -> list[Any]:
    with ledger.read() as reading:
        return reading.execute(sql).fetchall()


def test_tables_columns_and_triggers_are_found_as_in_sqlite(
    ledger: LedgerPlace, postgres_ledger_url: str
) -> None:
    asked = (
        "SELECT type FROM sqlite_schema WHERE name IN ('usage', 'audit_workspace', 'audit_no_update', 'x')"
    )
    assert sorted(read(ledger, asked)) == [("index",), ("table",), ("trigger",)]
    triggers = "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'audit'"
    assert read(ledger, triggers) == [(3,)]
    assert read(ledger, "SELECT 1 FROM pragma_table_info('audit') WHERE name = 'hash'") == [(1,)]
    assert read(ledger, "SELECT 1 FROM pragma_table_info('none')") == []
    with psycopg.connect(postgres_ledger_url, autocommit=True) as owner:
        owner.execute("ALTER TABLE audit DISABLE TRIGGER audit_no_update")
    assert read(ledger, triggers) == [(2,)]


def test_lines_are_appended_with_growing_numbers_only(ledger: LedgerPlace, postgres_ledger_url: str) -> None:
    with ledger.write() as writing:
        writing.execute(APPEND, (1, "0" * 64))
        writing.execute(APPEND, (3, "0" * 64))
    assert read(ledger, "SELECT seq FROM sqlite_sequence WHERE name = 'audit'") == [(3,)]
    refused = (
        "UPDATE audit SET change = 'y'",
        "DELETE FROM audit WHERE number = 3",
        "TRUNCATE audit",
        "INSERT INTO audit SELECT * FROM audit",
        "INSERT INTO audit SELECT * FROM audit ON CONFLICT (number) DO UPDATE SET change = 'y'",
    )
    with psycopg.connect(postgres_ledger_url, autocommit=True) as owner:
        for statement in refused:
            with pytest.raises(psycopg.IntegrityError, match="the audit log is append-only"):
                owner.execute(statement)  # type: ignore[arg-type]
    assert read(ledger, "SELECT number, change FROM audit ORDER BY number") == [(1, "x"), (3, "x")]
