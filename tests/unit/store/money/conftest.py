"""The fixture of tests that run on SQLite alone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from addon.store.money.sqlite.store import SqliteStore


@pytest.fixture
async def store(ledger_path: Path) -> AsyncIterator[SqliteStore]:
    """The store on a new ledger."""
    opened = SqliteStore(ledger_path)
    yield opened
    await opened.close()
