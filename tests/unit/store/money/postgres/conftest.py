"""The fixtures of tests that run on PostgreSQL alone."""

from collections.abc import AsyncIterator

import psycopg
import pytest
from pydantic import SecretStr

from addon.store.money.postgres.money import PostgresMoney
from addon.store.money.postgres.transactions import Transactions


@pytest.fixture
async def transactions(postgres_url: str) -> AsyncIterator[Transactions]:
    """Transactions in a database with one table: ``numbers`` of one column ``number``, which takes no negative ones."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE numbers (number bigint CHECK (number >= 0))")
    opened = Transactions(SecretStr(postgres_url))
    yield opened
    await opened.close()


@pytest.fixture
async def money(postgres_ledger_url: str) -> AsyncIterator[PostgresMoney]:
    """Money in a new ledger."""
    opened = PostgresMoney(SecretStr(postgres_ledger_url))
    await opened.check()
    yield opened
    await opened.close()
