"""A ledger that can't be written: the store says so, and no row is lost while it is so."""

import asyncio
import logging
from pathlib import Path

import pytest
from rig.ledger import booked, booked_ids, locked_by_another, make_row, second_connection

from addon.store import Store, StoreUnavailable
from addon.store import sqlite as store_sqlite
from addon.store.sqlite import SqliteStore


async def test_while_another_holds_the_lock_a_row_is_kept_and_then_written_once(
    store: Store, ledger_path: Path
) -> None:
    with locked_by_another(ledger_path):
        for row_id in ("a", "b", "a"):
            with pytest.raises(StoreUnavailable, match=r"tollgate\.db: database is locked"):
                await store.settle(make_row(row_id))
    assert booked(ledger_path) == []
    await store.settle(make_row("c"))
    assert booked_ids(ledger_path) == ["c", "a", "b"]


async def test_a_kept_row_is_the_row_as_it_was(store: Store, ledger_path: Path) -> None:
    row = make_row()
    with locked_by_another(ledger_path), pytest.raises(StoreUnavailable):
        await store.settle(row)
    row["status"] = 500
    await store.check()
    assert booked(ledger_path) == [make_row()]


async def test_check_tells_a_locked_database_and_writes_what_was_kept(
    store: Store, ledger_path: Path
) -> None:
    await store.check()
    with locked_by_another(ledger_path):
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.check()
        with pytest.raises(StoreUnavailable):
            await store.settle(make_row())
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.check()
    await store.check()
    assert booked(ledger_path) == [make_row()]


async def test_close_writes_what_was_kept_and_may_be_called_twice(ledger_path: Path) -> None:
    store = SqliteStore(ledger_path)
    with locked_by_another(ledger_path), pytest.raises(StoreUnavailable):
        await store.settle(make_row())
    store.close()
    store.close()
    assert booked(ledger_path) == [make_row()]


async def test_more_kept_rows_than_one_batch_are_all_written(
    store: Store, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_sqlite, "_BATCH_ROWS", 3)
    with locked_by_another(ledger_path):
        for number in range(10):
            with pytest.raises(StoreUnavailable):
                await store.settle(make_row(f"call-{number}"))
    await store.settle(make_row("own"))
    assert booked_ids(ledger_path) == ["own", "call-0", "call-1", "call-2"]
    await store.check()
    assert booked_ids(ledger_path) == ["own", *(f"call-{number}" for number in range(10))]


async def test_an_illegal_row_among_the_kept_ones_does_not_hold_up_the_others(
    store: Store, ledger_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with locked_by_another(ledger_path):
        for row in (make_row("a"), make_row("b", mode="free"), make_row("c", end_user="\ud800")):
            with pytest.raises(StoreUnavailable):
                await store.settle(row)
    await store.check()
    assert booked_ids(ledger_path) == ["a", "c"]
    assert [
        record.message for record in caplog.records if "is lost" in record.message and "'b'" in record.message
    ]


async def test_rows_beyond_the_bound_are_logged_well_enough_to_be_booked_by_hand(
    store: Store, ledger_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_sqlite, "KEPT_ROWS", 2)
    with locked_by_another(ledger_path):
        for row_id in ("a", "b", "c"):
            with pytest.raises(StoreUnavailable):
                await store.settle(make_row(row_id, end_user="somebody@example.com"))
    await store.check()
    assert booked_ids(ledger_path) == ["a", "b"]
    [lost] = [record for record in caplog.records if "is lost" in record.message]
    assert lost.name == "tollgate.store"
    assert lost.levelno == logging.ERROR
    assert lost.__dict__["row"]["id"] == "c"
    assert lost.__dict__["row"]["retail_nanousd"] == 1560
    assert "somebody" not in caplog.text


async def test_keeping_and_recovering_are_logged_once_each(
    store: Store, ledger_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tollgate.store")
    with locked_by_another(ledger_path):
        for row_id in ("a", "b", "c"):
            with pytest.raises(StoreUnavailable):
                await store.settle(make_row(row_id))
    await store.check()
    await store.check()
    events = [record.__dict__["event"] for record in caplog.records]
    assert events == ["ledger unavailable", "ledger recovered"]


async def test_rows_that_closing_cannot_write_are_logged(
    ledger_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_sqlite, "_PATIENT_MS", 10)
    store = SqliteStore(ledger_path)
    with locked_by_another(ledger_path):
        with pytest.raises(StoreUnavailable):
            await store.settle(make_row())
        store.close()
    assert "a ledger row is lost: database is locked" in caplog.text
    assert "call-0" in caplog.text
    assert booked(ledger_path) == []


async def settle_until_full(store: Store) -> int:
    """Return how many rows were given to the store, the refused one included."""
    for number in range(10_000):
        try:
            await store.settle(make_row(f"call-{number:05}"))
        except StoreUnavailable:
            return number + 1
    raise AssertionError("the disk never filled")


async def test_a_full_disk_keeps_the_row_until_there_is_room(store: SqliteStore, ledger_path: Path) -> None:
    with second_connection(ledger_path) as other:
        pages = other.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    sent = await settle_until_full(store)
    assert booked_ids(ledger_path) == [f"call-{number:05}" for number in range(sent - 1)]
    with pytest.raises(StoreUnavailable, match="full"):
        await store.check()
    store._connection.execute("PRAGMA max_page_count = 4294967294")
    await store.check()
    assert booked_ids(ledger_path) == [f"call-{number:05}" for number in range(sent)]


async def test_check_tells_a_database_that_can_only_be_read(store: SqliteStore) -> None:
    store._connection.execute("PRAGMA query_only = 1")
    with pytest.raises(StoreUnavailable, match="readonly"):
        await store.check()


@pytest.mark.parametrize("replaced", [True, False])
def test_check_tells_a_file_that_is_gone_or_another_one(
    replaced: bool, store: Store, ledger_path: Path
) -> None:
    ledger_path.rename(ledger_path.with_suffix(".old"))
    if replaced:
        ledger_path.touch()
    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        asyncio.run(store.check())
