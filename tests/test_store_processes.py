"""Several processes on one ledger, and one that is killed: every acknowledged row is there exactly once."""

import asyncio
import fcntl
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from rig.ledger import booked, booked_ids, make_row, second_connection

from addon.store import sqlite as store_sqlite
from addon.store.migrations import migrate
from addon.store.sqlite import SqliteStore

COMMON = """
import asyncio, os, sys
from pathlib import Path
from addon.store import StoreUnavailable
from addon.store.sqlite import SqliteStore
from rig.ledger import make_row
path = Path(sys.argv[1])
"""
OPENER = (
    COMMON
    + """
print("ready", flush=True)
sys.stdin.readline()
store = SqliteStore(path)
asyncio.run(store.settle(make_row(f"opener-{os.getpid()}")))
store.close()
print("done")
"""
)
WRITER = (
    COMMON
    + """
async def write():
    for number in range(int(sys.argv[3])):
        row_id = f"{sys.argv[2]}-{number}"
        try:
            await store.settle(make_row(row_id))
        except StoreUnavailable:
            continue
        print(row_id, flush=True)

store = SqliteStore(path)
asyncio.run(write())
store.close()
"""
)


def start(
    program: str, ledger_path: Path, *arguments: str, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[str]:
    root = Path(__file__).parent.parent
    return subprocess.Popen(
        [sys.executable, "-c", program, str(ledger_path), *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(root / "tests")])},
    )


def test_processes_that_open_a_new_ledger_at_once_all_succeed(ledger_path: Path) -> None:
    openers = [start(OPENER, ledger_path, stdin=subprocess.PIPE) for _ in range(4)]
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("\n")
        opener.stdin.flush()
    assert [opener.communicate(timeout=30)[0] for opener in openers] == ["done\n"] * 4
    assert len(booked(ledger_path)) == 4


def test_while_one_opens_a_ledger_no_other_can_begin_to(
    ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def migrate_and_try_the_lock(connection: sqlite3.Connection) -> None:
        folder = os.open(ledger_path.parent, os.O_RDONLY)
        try:
            with pytest.raises(BlockingIOError):
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(folder)
        tried.append(ledger_path)
        migrate(connection)

    tried: list[Path] = []
    monkeypatch.setattr(store_sqlite, "migrate", migrate_and_try_the_lock)
    for _ in range(2):
        SqliteStore(ledger_path).close()
    assert len(tried) == 2


def test_processes_that_write_at_once_lose_nothing(ledger_path: Path) -> None:
    writers = [start(WRITER, ledger_path, name, "300") for name in ("a", "b")]
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    assert sorted(booked_ids(ledger_path)) == sorted(
        f"{name}-{number}" for name in ("a", "b") for number in range(300)
    )


def test_a_reader_does_not_stop_the_writer(ledger_path: Path) -> None:
    SqliteStore(ledger_path).close()
    with second_connection(ledger_path) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM usage").fetchone()[0] == 0
        writer = start(WRITER, ledger_path, "a", "10")
        writer.communicate(timeout=60)
        assert writer.returncode == 0
        assert reader.execute("SELECT count(*) FROM usage").fetchone()[0] == 0
    assert len(booked(ledger_path)) == 10


def test_a_writer_that_is_killed_leaves_every_row_that_it_acknowledged_exactly_once(
    ledger_path: Path,
) -> None:
    writer = start(WRITER, ledger_path, "k", "1000000")
    assert writer.stdout is not None
    acknowledged = [writer.stdout.readline().strip() for _ in range(500)]
    writer.kill()
    acknowledged += [line.strip() for line in writer.stdout if line.endswith("\n")]
    writer.wait()
    writer.stdout.close()
    with closing(SqliteStore(ledger_path)) as store:
        asyncio.run(store.check())
        asyncio.run(store.settle(make_row(acknowledged[0])))
    ids = booked_ids(ledger_path)
    assert acknowledged == ids[: len(acknowledged)]
    assert len(ids) == len(set(ids))
    assert len(ids) - len(acknowledged) <= 1, "only the row being written may be there unacknowledged"
    with second_connection(ledger_path) as reader:
        assert reader.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
