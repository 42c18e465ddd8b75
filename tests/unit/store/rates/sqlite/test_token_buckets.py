"""Buckets of a minute in SQLite: their rows. ``test_protocol_tokens_a_minute`` has what all stores do alike."""

import asyncio
from pathlib import Path

import pytest

from addon.store.money.sqlite.store import SqliteStore
from addon.store.rates.sqlite import token_buckets
from policies.model import Budget, Workspace
from policies.token_limits import (
    TokenDenial,
    TokenLimit,
    TokenRequest,
    TokensTaken,
    find_budget_rates,
    share_limit,
)

OF_KEY = TokenLimit("key", "key:acme/ci", 400)
START_MS = 10**9


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "tollgate.db")


def take(store: SqliteStore, tokens: int, limit: TokenLimit, now_ms: int) -> TokensTaken | TokenDenial:
    connection = store._file.connection
    taking = store._buckets.find(connection, TokenRequest(tokens, (limit,)), now_ms)
    if isinstance(taking, TokenDenial):
        return taking
    buckets, taken = taking
    token_buckets.write_buckets(connection, taken.limits, buckets)
    return taken


def limit_of(user: str) -> TokenLimit:
    workspace = Workspace("acme", "Acme", "pro", (), budgets=(Budget("user", None, tpm=1_000),))
    return find_budget_rates(workspace, user, None)[0]


def test_a_bucket_from_before_the_machine_started_again_does_not_count(store: SqliteStore) -> None:
    """The clock begins again with the machine: the bucket would stay full for as long as the machine ran before."""
    assert isinstance(take(store, 400, OF_KEY, START_MS), TokensTaken)
    assert isinstance(take(store, 400, OF_KEY, START_MS), TokenDenial)
    assert isinstance(take(store, 400, OF_KEY, 5_000), TokensTaken)
    asyncio.run(store.close())


def test_a_row_stays_while_its_take_may_be_given_back(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_buckets, "MAX_VALUES", 1)
    taken = take(store, 500, limit_of("ann"), START_MS)
    assert isinstance(taken, TokensTaken)
    assert taken.limits == (limit_of("ann"),)
    shared = share_limit(limit_of("ben"))
    kept_ms = 30_000 + token_buckets.KEPT_EMPTY_MS
    for now_ms, limit in (
        (START_MS + kept_ms - 500, shared),
        (START_MS + kept_ms + 1, shared),  # It was looked for just before.
        (START_MS + kept_ms + 501, limit_of("ben")),
    ):
        found = take(store, 1, limit_of("ben"), now_ms)
        assert isinstance(found, TokensTaken)
        assert found.limits == (limit,)
    asyncio.run(store.close())
