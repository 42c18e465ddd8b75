"""The fixtures of tests that run on SQLite alone, or on a ledger of either engine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.places import make_sqlite_place

from addon.store.money.ledger import LedgerPlace
from addon.store.money.postgres.ledger import PostgresPlace
from addon.store.money.sqlite.store import SqliteStore


@pytest.fixture
async def store(ledger_path: Path) -> AsyncIterator[SqliteStore]:
    """The store on a new ledger."""
    opened = SqliteStore(ledger_path)
    yield opened
    await opened.close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> LedgerPlace:
    """A new ledger, in each engine."""
    if request.param == "sqlite":
        return make_sqlite_place(tmp_path / "ledger.db")
    return PostgresPlace(SecretStr(request.getfixturevalue("postgres_ledger_url")))
