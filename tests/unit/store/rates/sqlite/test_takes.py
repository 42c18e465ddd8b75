"""The token bucket in SQLite, compared with the policy's own bucket."""

import asyncio
from pathlib import Path

import pytest

from addon.store.money.sqlite.store import SqliteStore
from addon.store.rates.sqlite import takes


@pytest.mark.parametrize(
    ("limit_rpm", "wait_us"),
    [(4, 59_999_000), (3, 59_999_100), (2, 59_999_200), (1, 59_999_300)],
)
def test_a_token_is_back_a_minute_after_it_was_taken_under_any_earlier_limit(
    tmp_path: Path, limit_rpm: int, wait_us: int
) -> None:
    store = SqliteStore(tmp_path / "tollgate.db")
    connection = store._file.connection
    for number in range(4):
        assert takes.take_token(connection, "acme", 4, 10**9 + number * 100) == 0
    assert takes.take_token(connection, "acme", limit_rpm, 10**9 + 1_000) == wait_us
    assert takes.token_wait_us(connection, "acme", limit_rpm, 10**9 + 1_000) == wait_us
    assert takes.token_wait_us(connection, "acme", limit_rpm, 10**9 + 1_000 + wait_us) == 0
    asyncio.run(store.close())
