"""A ledger that can't be written: calls are refused, settlements are kept, and nothing is damaged."""

import logging
from collections import UserDict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rig.ledger import locked_by_another, make_row, read_ids, read_rows
from rig.sqlite_stores import assert_all_refused, assert_undamaged, ended
from rig.stores import WORKSPACE, StoreLocation, request, settlement, takes
from rig.stores import request as hold_request

from addon.store.money import pending_writes
from addon.store.money.sqlite.store import SqliteStore
from addon.store.protocol import Settlement, Store, StoreUnavailable
from addon.store.rates.circuits import FRESH_S
from policies.circuit_breaker import FAILURES, REST_US


@pytest.fixture
async def store(ledger_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(ledger_path)
    yield opened
    await opened.close()


async def test_while_another_holds_the_lock_calls_are_refused_and_then_go_on(
    store: Store, ledger_path: Path
) -> None:
    await store.hold(request("in flight"))
    with locked_by_another(ledger_path):
        await assert_all_refused(store, r"tollgate\.db: database is locked")
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.move_hold(request("in flight", attempt=2))
        with pytest.raises(StoreUnavailable):
            await store.settle(settlement("in flight"))
    await store.maintain()
    assert await takes(store, WORKSPACE, 10)
    assert read_ids(ledger_path) == ["in flight"]
    assert StoreLocation(ledger_path).holds() == []
    assert_undamaged(ledger_path)


async def test_a_circuit_that_can_not_be_read_or_written_blocks_no_call(
    store: SqliteStore, ledger_path: Path
) -> None:
    location = StoreLocation(ledger_path)
    for _ in range(FAILURES):
        await store.record_attempt("OPENAI/payg/acme", failed=True)
    await store.maintain()
    with locked_by_another(ledger_path):
        assert not await store.circuit_allows("OPENAI/payg/acme", "call"), (
            "the last reading is used for a while"
        )
    location.age_circuits(REST_US / 1e6)
    await store.maintain()
    with locked_by_another(ledger_path):
        assert await store.circuit_allows("OPENAI/payg/acme", "call"), "a probe that can't be recorded"
        await store.record_attempt("OPENAI/payg/acme", failed=True)
        await store.record_attempt("OPENAI/payg/acme", failed=False)
    await store.maintain()
    assert store.open_circuits() == {"OPENAI/payg/acme"}
    store._circuits._read_s -= FRESH_S
    assert store.open_circuits() == frozenset()
    assert await store.circuit_allows("OPENAI/payg/acme", "call")


async def test_a_settlement_is_kept_as_it_was_and_written_once(store: Store, ledger_path: Path) -> None:
    row = make_row()
    with locked_by_another(ledger_path):
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="locked"):
                await store.settle(Settlement(row, from_wallet=False))
        row["status"] = 500
    assert read_rows(ledger_path) == []
    await store.check()
    await store.maintain()
    assert read_rows(ledger_path) == [make_row()]
    assert_undamaged(ledger_path)


class FailsOnce(UserDict[str, Any]):
    """A row that can't be read the first time, as without memory."""

    def keys(self) -> Any:
        self.keys = super().keys  # type: ignore[method-assign]
        raise MemoryError


@pytest.mark.parametrize("backend", ["sqlite", "redis"])
async def test_a_settlement_is_kept_after_any_error(
    backend: str, ledger_path: Path, request: pytest.FixtureRequest
) -> None:
    location = StoreLocation(
        ledger_path, request.getfixturevalue("redis_url") if backend == "redis" else None
    )
    store = location.open()
    await store.check()
    await store.hold(hold_request("a"))
    with pytest.raises(MemoryError):
        await store.settle(Settlement(FailsOnce(settlement("a").row), from_wallet=False))
    assert read_rows(ledger_path) == []
    await store.maintain()
    await store.check()
    assert read_ids(ledger_path) == ["a"]
    await store.close()


async def test_a_pending_settlement_that_fails_again_blocks_no_other(
    store: SqliteStore, ledger_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with locked_by_another(ledger_path):
        for one in (
            Settlement(make_row("a", created_at="2026-13-31T12:00:00.000+00:00"), from_wallet=False),
            ended("b"),
        ):
            with pytest.raises(StoreUnavailable):
                await store.settle(one)
    for _ in range(2):
        await store.maintain()
    assert read_ids(ledger_path) == ["b"]
    assert len([record for record in caplog.records if "can't be recorded" in record.message]) == 1


async def test_calls_are_refused_when_too_many_settlements_are_pending(
    store: SqliteStore, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_writes, "MAX_PENDING", 2)
    with locked_by_another(ledger_path):
        for one in "ab":
            with pytest.raises(StoreUnavailable):
                await store.settle(ended(one))
    with pytest.raises(StoreUnavailable, match="2 calls wait to be recorded"):
        await store.hold(hold_request("c"))
    await store.maintain()
    await store.hold(hold_request("c"))


async def test_a_hold_that_could_not_be_released_is_released_later(store: Store, ledger_path: Path) -> None:
    await store.hold(request("a"))
    with locked_by_another(ledger_path), pytest.raises(StoreUnavailable):
        await store.void("a")
    assert StoreLocation(ledger_path).holds() == ["a"]
    await store.maintain()
    assert StoreLocation(ledger_path).holds() == []


async def test_close_writes_pending_settlements_and_may_be_called_twice(ledger_path: Path) -> None:
    store = SqliteStore(ledger_path)
    with locked_by_another(ledger_path), pytest.raises(StoreUnavailable):
        await store.settle(ended("a"))
    await store.close()
    await store.close()
    assert read_ids(ledger_path) == ["a"]


async def test_a_settlement_that_can_never_be_written_blocks_no_other(
    store: Store, ledger_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await store.hold(request("b"))
    with locked_by_another(ledger_path):
        for one in (
            ended("a"),
            Settlement(settlement("b").row | {"mode": "free"}, True),
            ended("c", end_user="\ud800"),
        ):
            with pytest.raises(StoreUnavailable):
                await store.settle(one)
    await store.check()
    assert read_ids(ledger_path) == ["a", "c"]
    assert StoreLocation(ledger_path).holds() == []
    assert [
        record.message for record in caplog.records if "is lost" in record.message and "'b'" in record.message
    ]


async def test_keeping_and_recovering_are_logged_once_each(
    store: Store, ledger_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tollgate.store")
    with locked_by_another(ledger_path):
        for row_id in ("a", "b", "c"):
            with pytest.raises(StoreUnavailable):
                await store.settle(ended(row_id))
    await store.check()
    await store.check()
    assert [record.__dict__["event"] for record in caplog.records] == [
        "ledger unavailable",
        "ledger recovered",
    ]
    assert read_ids(ledger_path) == ["a", "b", "c"]


async def test_settlements_that_close_can_not_write_are_logged_with_all_that_a_manual_entry_needs(
    ledger_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(ledger_path)
    with locked_by_another(ledger_path):
        with pytest.raises(StoreUnavailable):
            await store.settle(ended("a", end_user="somebody@example.com"))
        await store.close()
    [lost] = [record for record in caplog.records if "is lost" in record.message]
    assert "database is locked" in lost.message
    assert (lost.name, lost.levelno) == ("tollgate.store", logging.ERROR)
    assert (lost.__dict__["row"]["id"], lost.__dict__["row"]["retail_nanousd"]) == ("a", 1560)
    assert "somebody" not in caplog.text
    assert read_rows(ledger_path) == []


async def test_a_settlement_that_fails_again_and_again_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(_: Settlement) -> None:
        raise ZeroDivisionError

    async def void(_: str) -> None:
        raise AssertionError

    pending = pending_writes.PendingWrites()
    pending.add(settlement("a"), StoreUnavailable("locked"))
    for _ in range(3):
        await pending.write_all(fail, void)
    assert [one.message for one in caplog.records if one.exc_info] == [
        "a call that is kept in memory can't be recorded"
    ]
