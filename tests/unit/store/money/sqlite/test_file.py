"""The ledger's open SQLite file: locks, a full disk, a file that is removed or read-only, and its mode."""

import asyncio
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import pytest
from rig.ledger import locked_by_another, read_ids, second_connection
from rig.sqlite_stores import assert_all_refused, assert_undamaged, ended, open_settle_and_close
from rig.stores import WORKSPACE, StoreLocation, request, settlement, takes

from addon.store.money.sqlite.connection import open_connection
from addon.store.money.sqlite.store import SqliteStore
from addon.store.protocol import Store, StoreUnavailable


async def test_while_one_call_waits_for_the_lock_other_tasks_run(store: Store, ledger_path: Path) -> None:
    with locked_by_another(ledger_path):
        waiting = asyncio.create_task(takes(store, WORKSPACE, 10))
        for _ in range(3):
            await asyncio.sleep(0.001)
            assert not waiting.done()
    assert await waiting


async def fill(store: SqliteStore, ledger_path: Path) -> list[str]:
    """Limit the file's size, and make calls until one is refused. Return the ids that were settled."""
    with second_connection(ledger_path) as other:
        pages = other.execute("PRAGMA page_count").fetchone()[0]
    store._file.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    settled = []
    for number in range(10_000):
        try:
            await store.hold(request(f"a-{number:05}"))
            await store.settle(settlement(f"a-{number:05}"))
        except StoreUnavailable:
            return settled
        settled.append(f"a-{number:05}")
    raise AssertionError("the disk never filled")


async def test_a_full_disk_refuses_calls_keeps_settlements_and_damages_nothing(
    store: SqliteStore, ledger_path: Path
) -> None:
    await store.hold(request("in flight"))
    settled = await fill(store, ledger_path)
    with pytest.raises(StoreUnavailable, match="full"):
        await store.settle(settlement("in flight", end_user="x" * 10_000))
    with pytest.raises(StoreUnavailable, match="full"):
        await store.hold(request("refused", workspace="w" * 10_000))
    with pytest.raises(StoreUnavailable, match="full"):
        await store.check()
    assert_undamaged(ledger_path)
    store._file.connection.execute("PRAGMA max_page_count = 4294967294")
    await store.check()
    assert set(read_ids(ledger_path)) >= {*settled, "in flight"}
    assert StoreLocation(ledger_path).holds() == []
    assert_undamaged(ledger_path)


async def test_a_read_only_file_is_noticed(store: SqliteStore) -> None:
    store._file.connection.execute("PRAGMA query_only = 1")
    await assert_all_refused(store, "readonly")


def take_away(file: Path, *, put_another: bool) -> None:
    file.rename(file.with_suffix(".old"))
    if put_another:
        file.touch()


@pytest.mark.parametrize(("put_another", "reason"), [(True, "removed or replaced"), (False, "no such file")])
async def test_a_removed_or_replaced_file_is_noticed(
    put_another: bool, reason: str, store: SqliteStore, ledger_path: Path
) -> None:
    take_away(ledger_path, put_another=put_another)
    await assert_all_refused(store, reason)


async def test_a_locked_file_is_tried_several_times_even_after_the_timeout(
    store: SqliteStore,
) -> None:
    """A clock like that of a process that was stopped: the time is over after hardly a try."""
    tries = 0

    def succeed_late() -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            time.sleep(0.05)
        if tries < 40:
            locked = sqlite3.OperationalError("database is locked")
            locked.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise locked
        return "done"

    assert await store._file.read(succeed_late, timeout_s=0.01) == "done"


async def test_the_ledger_is_readable_by_its_owner_only(store: Store, ledger_path: Path) -> None:
    await store.settle(ended())
    modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in ledger_path.parent.iterdir()}
    owners = {"tollgate.db-owners": 0o700}
    assert modes == {"tollgate.db": 0o600, "tollgate.db-wal": 0o600, "tollgate.db-shm": 0o600} | owners
    assert stat.S_IMODE(ledger_path.parent.stat().st_mode) == 0o700


def test_behind_a_link_to_a_missing_file_it_is_too(ledger_path: Path, tmp_path: Path) -> None:
    target = tmp_path / "disk" / "ledger.db"
    for file in (ledger_path, target):
        file.parent.mkdir()
    ledger_path.symlink_to(target)
    with closing(open_connection(ledger_path)) as connection:
        connection.execute("CREATE TABLE written (number)")
        modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in target.parent.iterdir()}
    assert modes == dict.fromkeys(("ledger.db", "ledger.db-wal", "ledger.db-shm"), 0o600)


def test_a_mode_that_the_operator_chose_stays(ledger_path: Path) -> None:
    open_settle_and_close(ledger_path)
    ledger_path.chmod(0o640)
    open_settle_and_close(ledger_path)
    assert stat.S_IMODE(ledger_path.stat().st_mode) == 0o640


@pytest.mark.parametrize("broken", ["text", "folder", "no folder"])
def test_a_file_that_is_no_database_is_refused_by_name(broken: str, ledger_path: Path) -> None:
    if broken == "no folder":
        ledger_path.parent.write_text("a file")
    else:
        ledger_path.parent.mkdir()
        ledger_path.mkdir() if broken == "folder" else ledger_path.write_text("not a database " * 100)
    with pytest.raises(StoreUnavailable, match=r"tollgate\.db: can't be opened: \w+"):
        SqliteStore(ledger_path)
