"""Ledgers with their tables, in either engine, for tests of what is written and read beside calls."""

from datetime import date
from pathlib import Path

from pydantic import SecretStr

from addon.store.money.ledger import LedgerPlace
from addon.store.money.postgres.ledger import PostgresLedger, PostgresPlace
from addon.store.money.postgres.schema import partition
from addon.store.money.postgres.tables import create
from addon.store.money.sqlite.connection import open_connection
from addon.store.money.sqlite.place import SqlitePlace


def make_sqlite_place(path: Path) -> LedgerPlace:
    """Make an empty ledger in the file."""
    open_connection(path).close()
    return SqlitePlace(path)


def make_postgres_place(url: str, *months: str) -> LedgerPlace:
    """Make an empty ledger in the database, if there is none. ``months`` ("2026-01") are those of its calls."""
    place = PostgresPlace(SecretStr(url))
    with place.fill() as connection:
        ledger = PostgresLedger(connection)
        create(ledger, date(2026, 11, 1))
        for month in months:
            ledger.execute(partition(month))
        connection.commit()
    return place
