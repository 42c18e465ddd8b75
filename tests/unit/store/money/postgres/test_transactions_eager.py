"""A server that refuses connections at once leaves no later call waiting, where tasks begin as they are made."""

import asyncio
from datetime import date

import pytest
from pydantic import SecretStr
from rig.bounds import BOUND_S
from rig.server_process import free_port

from addon.store.money.postgres.tables import prepare
from addon.store.money.postgres.transactions import Transactions
from addon.store.protocol import StoreUnavailable


async def test_each_call_is_refused_while_the_server_is_away() -> None:
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    transactions = Transactions(SecretStr(f"postgresql://nobody@127.0.0.1:{free_port()}/tollgate"))
    for _ in range(3):
        async with asyncio.timeout(BOUND_S):
            with pytest.raises(StoreUnavailable, match="refused"):
                await prepare(transactions, date(2026, 11, 1))
    await transactions.close()
