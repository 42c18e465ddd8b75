"""The writes of one turn of the event loop: one transaction, each decided by itself, all answered or none."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from rig.ledger import locked_by_another, make_priced_row, read_ids, second_connection
from rig.stores import WORKSPACE, StoreLocation, credit, request, settlement, takes, wallet

from addon.store.money.sqlite import file as ledger_file
from addon.store.money.sqlite.file import LedgerFile
from addon.store.money.sqlite.store import SqliteStore
from addon.store.protocol import IllegalRowError, StoreUnavailable
from policies.ledger_row import PRICE_SET_CONTENT
from policies.limits import Counter, Limit
from policies.spend import Denial, Hold

CALLS = 32


@contextmanager
def traced(store: SqliteStore) -> Iterator[list[str]]:
    """Give the list of all statements of a store, which grows."""
    statements: list[str] = []
    store._file.connection.set_trace_callback(statements.append)
    yield statements
    store._file.connection.set_trace_callback(None)


def commits(statements: list[str]) -> int:
    return statements.count("COMMIT")


def _priced() -> dict[str, Any]:
    row = make_priced_row()
    return {name: row[name] for name in ("price_set", PRICE_SET_CONTENT)}


async def call(store: SqliteStore, call_id: str, **changes: Any) -> None:
    """Make a call, with a turn of the loop between its steps as the sockets of a real call give."""
    assert isinstance(await store.take_and_hold(request(call_id, wallet()), 10_000), Hold)
    await asyncio.sleep(0)
    await store.settle(settlement(call_id, **changes))


async def test_calls_at_once_share_their_commits(store: SqliteStore, ledger_path: Path) -> None:
    await store.credit(credit("everything", 10**12))
    with traced(store) as statements:
        await asyncio.gather(*(call(store, f"call-{number:02}") for number in range(CALLS)))
    assert commits(statements) <= CALLS // 2
    assert len(read_ids(ledger_path)) == CALLS
    assert StoreLocation(ledger_path).holds() == []
    assert await StoreLocation(ledger_path).discrepancies() == []


async def test_a_call_alone_has_two_commits_and_nine_other_statements(store: SqliteStore) -> None:
    await store.credit(credit("everything", 10**12))
    await call(store, "first", **_priced())
    with traced(store) as statements:
        await call(store, "second", **_priced())
    # A statement is traced again for each statement of its triggers.
    words = [statement.split()[0] for statement, _ in groupby(statements)]
    hold, settle = ["SELECT", "INSERT", "SELECT", "INSERT"], ["INSERT"] * 4 + ["DELETE"]
    if words[5] == "DELETE":  # A new group of takes, which forgets those that do not count any more.
        del words[5]
    assert words == ["BEGIN", *hold, "COMMIT", "BEGIN", *settle, "COMMIT"]


async def test_a_write_alone_is_committed_before_any_other_task_runs(
    store: SqliteStore, ledger_path: Path
) -> None:
    await asyncio.sleep(0)
    with pytest.raises(StopIteration):
        store.hold(request("a")).send(None)
    assert StoreLocation(ledger_path).holds() == ["a"]


async def test_the_writes_of_a_group_are_decided_in_the_order_in_which_they_were_asked(
    store: SqliteStore,
) -> None:
    limit = Limit("request_cap", Counter("key:acme/ci", "ever"), 3)
    decided = await asyncio.gather(*(store.hold(request(str(number), limit)) for number in range(6)))
    assert [type(one) for one in decided] == [Hold] * 3 + [Denial] * 3
    waits = await asyncio.gather(*(takes(store, WORKSPACE, 4) for _ in range(6)))
    assert waits == [True] * 4 + [False] * 2


async def test_a_row_that_can_never_be_written_fails_alone(store: SqliteStore, ledger_path: Path) -> None:
    ends = [settlement(f"call-{number}") for number in range(6)]
    ends[3] = settlement("call-3", mode="unknown")
    ended = await asyncio.gather(*map(store.settle, ends), return_exceptions=True)
    assert [type(one) for one in ended] == [type(None)] * 3 + [IllegalRowError] + [type(None)] * 2
    assert sorted(read_ids(ledger_path)) == [f"call-{number}" for number in range(6) if number != 3]
    assert await StoreLocation(ledger_path).discrepancies() == []


async def test_when_the_disk_is_full_each_write_of_a_group_fails_and_nothing_is_half_written(
    store: SqliteStore, ledger_path: Path
) -> None:
    await asyncio.gather(*(store.hold(request(str(number))) for number in range(4)))
    with second_connection(ledger_path) as other:
        pages = other.execute("PRAGMA page_count").fetchone()[0]
    store._file.connection.execute(f"PRAGMA max_page_count = {pages}")
    ends = [settlement(str(number), end_user="x" * 200_000) for number in range(4)]
    ended = await asyncio.gather(*map(store.settle, ends), return_exceptions=True)
    assert [type(one) for one in ended] == [StoreUnavailable] * 4
    assert read_ids(ledger_path) == []
    assert len(StoreLocation(ledger_path).holds()) == 4
    store._file.connection.execute("PRAGMA max_page_count = 4294967294")
    await store.check()
    assert len(read_ids(ledger_path)) == 4
    assert StoreLocation(ledger_path).holds() == []
    assert await StoreLocation(ledger_path).discrepancies() == []


async def test_a_write_that_is_cancelled_while_it_waits_is_not_done(
    store: SqliteStore, ledger_path: Path
) -> None:
    waiting = [asyncio.create_task(store.hold(request(str(number)))) for number in range(3)]
    await asyncio.sleep(0)  # The first one is done, and the others wait in a group.
    waiting[1].cancel()
    assert isinstance(await waiting[2], Hold)
    assert StoreLocation(ledger_path).holds() == ["0", "2"]


async def test_a_hold_that_was_committed_for_a_call_that_is_cancelled_is_released(
    store: SqliteStore, ledger_path: Path
) -> None:
    waiting = [asyncio.create_task(store.hold(request(str(number)))) for number in range(2)]
    await asyncio.sleep(0)
    store._file._commit_next()
    assert StoreLocation(ledger_path).holds() == ["0", "1"]
    waiting[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting[1]
    await store.maintain()
    assert StoreLocation(ledger_path).holds() == ["0"]


async def test_all_writes_that_wait_for_a_lock_are_committed_together(
    store: SqliteStore, ledger_path: Path
) -> None:
    with traced(store) as statements:
        with locked_by_another(ledger_path):
            waiting = [asyncio.create_task(store.hold(request(str(number)))) for number in range(CALLS)]
            await asyncio.sleep(0.01)
            assert not any(task.done() for task in waiting)
        await asyncio.gather(*waiting)
    assert commits(statements) == 1
    assert len(StoreLocation(ledger_path).holds()) == CALLS


async def test_every_write_that_waits_too_long_for_a_lock_fails(
    store: SqliteStore, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_file, "_MIN_TURNS", 3)
    await store.hold(request("a"))
    with locked_by_another(ledger_path):
        releases = [
            store._file.write(lambda connection: connection.execute("DELETE FROM holds"), timeout_s=0.001)
            for _ in range(3)
        ]
        failed = await asyncio.gather(*releases, return_exceptions=True)
    assert [str(one) for one in failed] == [f"{ledger_path}: database is locked"] * 3
    assert StoreLocation(ledger_path).holds() == ["a"]


async def test_a_large_group_is_committed_in_parts(store: SqliteStore, ledger_path: Path) -> None:
    with traced(store) as statements:
        await asyncio.gather(*(store.hold(request(f"{number:04}")) for number in range(200)))
    assert commits(statements) == 1 + -(-199 // ledger_file.MAX_GROUP)
    assert len(StoreLocation(ledger_path).holds()) == 200


async def test_closing_commits_what_waits(store: SqliteStore, ledger_path: Path) -> None:
    waiting = [asyncio.create_task(store.hold(request(str(number)))) for number in range(3)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*waiting)
    assert StoreLocation(ledger_path).holds() == ["0", "1", "2"]


def test_a_file_serves_one_event_loop_after_another(ledger_path: Path) -> None:
    file = LedgerFile(ledger_path)

    async def write_and_leave() -> None:
        for _ in range(2):
            waiting = asyncio.create_task(file.write(lambda connection: connection.total_changes))
            await asyncio.sleep(0)
            with suppress(asyncio.CancelledError):
                waiting.cancel()

    for _ in range(3):
        asyncio.run(write_and_leave())
        assert asyncio.run(file.write(lambda _: "written")) == "written"
    file.close()


async def test_a_locked_file_is_tried_less_and_less_often_for_as_many_turns_as_calls_need(
    ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []

    def note(turns: int) -> float:
        waits.append(turns)
        return 0.0

    monkeypatch.setattr(ledger_file, "_retry_s", note)
    file = LedgerFile(ledger_path)
    file.disable_busy_timeout()
    with locked_by_another(ledger_path), pytest.raises(StoreUnavailable, match="locked"):
        await file.write(lambda _: None, timeout_s=0.0)
    assert waits == list(range(1, len(waits) + 1))
    assert len(waits) >= ledger_file._MIN_TURNS
    file.close()


async def test_a_read_of_a_locked_file_is_given_up_after_as_many_turns(
    ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []

    def note(turns: int) -> float:
        waits.append(turns)
        return 0.0

    def find_locked() -> None:
        with second_connection(ledger_path) as other:
            other.execute("BEGIN IMMEDIATE")

    monkeypatch.setattr(ledger_file, "_retry_s", note)
    file = LedgerFile(ledger_path)
    with locked_by_another(ledger_path), pytest.raises(StoreUnavailable, match="locked"):
        await file.read(find_locked, timeout_s=0.0)
    assert len(waits) == ledger_file._MIN_TURNS
    file.close()
