"""Several processes on one ledger, also killed ones: every acknowledged row is there exactly once."""

import asyncio
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.large import large, large_only, sized
from rig.ledger import read_ids, read_rows, second_connection
from rig.stores import StoreLocation

from addon.store.money.sqlite import connection as ledger_connection
from addon.store.money.sqlite.file import LedgerFile
from addon.store.money.sqlite.migrations import migrate

COMMON = """
import asyncio, os, sys
from pathlib import Path
from addon.store.protocol import Settlement, StoreUnavailable
from policies.spend import Hold
from addon.store.money.sqlite.store import SqliteStore
from rig.ledger import make_row
path = Path(sys.argv[1])

def ended(row_id):
    return Settlement(make_row(row_id), from_wallet=False)
"""
OPENER = (
    COMMON
    + """
async def work():
    store = SqliteStore(path)
    await store.settle(ended(f"opener-{os.getpid()}"))
    await store.close()

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(work())
print("done")
"""
)
WRITER = (
    COMMON
    + """
async def work():
    store = SqliteStore(path)
    for number in range(int(sys.argv[3])):
        row_id = f"{sys.argv[2]}-{number}"
        try:
            await store.settle(ended(row_id))
        except StoreUnavailable:
            continue
        print(row_id, flush=True)
    await store.close()

asyncio.run(work())
"""
)
CALLER = (
    COMMON
    + """
import random
from pydantic import SecretStr
from rig.stores import StoreLocation, settlement, credit, request, wallet

async def call(store, call_id):
    if isinstance(await store.hold(request(call_id, wallet())), Hold):
        print(call_id, flush=True)  # From here on the call may be sent upstream.
        await asyncio.sleep(random.random() / 100)
        if random.random() < 0.5:
            await store.move_hold(request(call_id, wallet(), attempt=2))
        await store.settle(settlement(call_id, random.randrange(60_000)))

async def work():
    store = StoreLocation(path, sys.argv[3] or None).open()
    await store.check()
    await store.credit(credit("everything", 10**15))
    for turn in range(10**6):
        await asyncio.gather(*(call(store, f"{sys.argv[2]}-{turn}-{number}") for number in range(8)))
        await store.maintain()

asyncio.run(work())
"""
)


def start(
    program: str, ledger_path: Path, *arguments: str, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[str]:
    root = ROOT
    return subprocess.Popen(
        [sys.executable, "-c", program, str(ledger_path), *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(root / "tests")])},
    )


@large_only
def test_processes_that_open_a_new_ledger_at_once_all_succeed(ledger_path: Path) -> None:
    openers = [start(OPENER, ledger_path, stdin=subprocess.PIPE) for _ in range(4)]
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("\n")
        opener.stdin.flush()
    assert [opener.communicate(timeout=BOUND_S)[0] for opener in openers] == ["done\n"] * 4
    assert len(read_rows(ledger_path)) == 4


def test_only_one_process_opens_a_new_ledger_at_a_time(
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
    monkeypatch.setattr(ledger_connection, "migrate", migrate_and_try_the_lock)
    for _ in range(2):
        LedgerFile(ledger_path).close()
    assert len(tried) == 2


@large_only
def test_processes_that_write_at_once_lose_nothing(ledger_path: Path) -> None:
    writers = [start(WRITER, ledger_path, name, "300") for name in ("a", "b")]
    for writer in writers:
        writer.communicate(timeout=BOUND_S)
        assert writer.returncode == 0
    assert sorted(read_ids(ledger_path)) == sorted(
        f"{name}-{number}" for name in ("a", "b") for number in range(300)
    )


def test_a_reader_does_not_stop_the_writer(ledger_path: Path) -> None:
    LedgerFile(ledger_path).close()
    with second_connection(ledger_path) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM usage").fetchone()[0] == 0
        writer = start(WRITER, ledger_path, "a", "10")
        writer.communicate(timeout=BOUND_S)
        assert writer.returncode == 0
        assert reader.execute("SELECT count(*) FROM usage").fetchone()[0] == 0
    assert len(read_rows(ledger_path)) == 10


@large_only
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
    again = start(OPENER, ledger_path, stdin=subprocess.PIPE)
    assert again.communicate("\n", timeout=BOUND_S)[0] == "ready\ndone\n"
    ids = read_ids(ledger_path)
    assert acknowledged == ids[: len(acknowledged)]
    assert len(ids) == len(set(ids))
    assert len(ids) - len(acknowledged) <= 2, "the opener's, and the one that was being written"
    with second_connection(ledger_path) as reader:
        assert reader.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


@large
@pytest.mark.parametrize("backend", ["sqlite", "redis"])
async def test_processes_that_are_killed_leave_no_hold_one_row_for_each_call_and_sums_that_agree(
    backend: str, request: pytest.FixtureRequest, ledger_path: Path
) -> None:
    url = request.getfixturevalue("redis_url") if backend == "redis" else ""
    location = StoreLocation(ledger_path, url or None)
    sent: set[str] = set()
    for turn in range(sized(1, 4)):
        sent |= await asyncio.to_thread(_kill_two_at_work, ledger_path, url, turn)
    successor = location.open()
    await successor.check()
    await successor.maintain()
    assert location.holds() == []
    assert sent <= location.rows().keys(), "a call that may have been sent has no row"
    assert await location.discrepancies() == []
    await successor.close()


def _kill_two_at_work(ledger_path: Path, url: str, turn: int) -> set[str]:
    """Let two processes make calls, kill them at a random moment, and return the calls that they announced."""
    callers = [start(CALLER, ledger_path, f"{turn}-{name}", url) for name in ("a", "b")]
    outputs = [caller.stdout for caller in callers if caller.stdout]
    first = [[output.readline() for _ in range(40 + 17 * turn)] for output in outputs]
    for caller in callers:
        caller.kill()
    rest = [
        output.readlines() for output in outputs
    ]  # ``communicate`` would skip lines that are buffered here.
    assert [caller.wait(BOUND_S) for caller in callers] == [-signal.SIGKILL] * 2
    for output in outputs:
        output.close()
    return {line.strip() for lines in (*first, *rest) for line in lines if line.endswith("\n")}
