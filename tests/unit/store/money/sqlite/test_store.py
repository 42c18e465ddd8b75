"""The store in SQLite: holds of dead and living processes, and tokens, checked in the file."""

from pathlib import Path

import pytest
from rig.large import large_only
from rig.ledger import read_rows, second_connection
from rig.stores import StoreLocation, die, request, takes

from addon.store.money.sqlite.store import SqliteStore
from addon.store.protocol import Store


async def test_a_hold_of_an_unknown_owner_is_settled(store: Store, ledger_path: Path) -> None:
    await store.hold(request("a"))
    with second_connection(ledger_path) as other:
        other.execute("UPDATE holds SET owner = 'elsewhere'")
    await store.maintain()
    assert StoreLocation(ledger_path).holds() == []
    assert read_rows(ledger_path)[0]["error_code"] == "interrupted"


async def test_a_hold_of_a_living_owner_stays_however_old_it_is(store: Store, ledger_path: Path) -> None:
    await store.hold(request("a"))
    with second_connection(ledger_path) as other:
        other.execute("UPDATE holds SET expires_at = '2020'")
    other_process = SqliteStore(ledger_path)
    await other_process.maintain()
    await other_process.close()
    assert StoreLocation(ledger_path).holds() == ["a"]


def pass_time(ledger_path: Path, seconds: int) -> None:
    with second_connection(ledger_path) as other:
        other.execute(
            "UPDATE takes SET taken_at_us = taken_at_us - ?, began_at_us = began_at_us - ?",
            (seconds * 10**6, seconds * 10**6),
        )


async def test_a_token_comes_back_a_minute_after_it_was_taken(store: Store, ledger_path: Path) -> None:
    assert await takes(store, "acme", 2)
    pass_time(ledger_path, 30)
    assert [await takes(store, "acme", 2) for _ in range(2)] == [True, False]
    pass_time(ledger_path, 31)
    assert [await takes(store, "acme", 2) for _ in range(2)] == [True, False]


async def test_after_an_idle_minute_there_is_a_full_burst(store: Store, ledger_path: Path) -> None:
    for _ in range(2):
        assert [await takes(store, "acme", 500) for _ in range(501)] == [True] * 500 + [False]
        pass_time(ledger_path, 61)


async def test_takes_from_before_the_machine_started_do_not_count(store: Store, ledger_path: Path) -> None:
    assert await takes(store, "acme", 1)
    pass_time(ledger_path, -(10**6))
    assert await takes(store, "acme", 1)
    assert not await takes(store, "acme", 1)


@large_only
async def test_a_bucket_has_a_bounded_number_of_groups(store: Store, ledger_path: Path) -> None:
    for _ in range(420):
        assert await takes(store, "acme", 100_000)
        with second_connection(ledger_path) as other:
            other.execute(
                "UPDATE takes SET taken_at_us = taken_at_us - 151000, began_at_us = began_at_us - 151000"
            )
    with second_connection(ledger_path) as other:
        assert other.execute("SELECT count(*) FROM takes").fetchone()[0] <= 401


async def test_calls_of_a_gateway_that_died_are_logged_by_the_next(
    ledger_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(ledger_path)
    await store.hold(request("a"))
    await die(store)
    await SqliteStore(ledger_path).close()
    assert "1 calls of a gateway that ended were interrupted" in caplog.text
    assert read_rows(ledger_path)[0]["error_code"] == "interrupted"
