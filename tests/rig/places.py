"""Ledgers with their tables, in either engine, for tests of what is written and read beside calls."""

from datetime import date
from pathlib import Path

import psycopg
from pydantic import SecretStr

from addon.store.money.ledger import LedgerPlace
from addon.store.money.postgres.ledger import PostgresPlace
from addon.store.money.postgres.schema import SCHEMA, partition, partitions
from addon.store.money.sqlite.connection import open_connection
from addon.store.money.sqlite.place import SqlitePlace


def make_sqlite_place(path: Path) -> LedgerPlace:
    """Make an empty ledger in the file."""
    open_connection(path).close()
    return SqlitePlace(path)


def make_postgres_place(url: str, *months: str) -> LedgerPlace:
    """Make an empty ledger in the database. ``months`` ("2026-01") are those of its calls."""
    with psycopg.connect(url, autocommit=True) as ledger:
        for statement in (*SCHEMA, *(partitions(date(2026, 11, 1))), *map(partition, months)):
            ledger.execute(statement)  # type: ignore[arg-type]
    return PostgresPlace(SecretStr(url))
