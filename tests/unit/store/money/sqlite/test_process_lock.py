"""The lock files of processes."""

import os
import subprocess
import sys
from pathlib import Path

from rig.configuration import ROOT
from rig.stores import die

from addon.store.money.sqlite.process_lock import ProcessLock, find_running
from addon.store.money.sqlite.store import SqliteStore


async def test_a_process_that_ended_leaves_no_file_behind(ledger_path: Path) -> None:
    owners = ledger_path.with_name("tollgate.db-owners")
    dead, living = SqliteStore(ledger_path), SqliteStore(ledger_path)
    (owners / "1-of-a-killed-process").touch()
    await die(dead)
    later = SqliteStore(ledger_path)
    assert len([name for name in os.listdir(owners) if not name.startswith(".")]) == 2
    await living.close()
    await later.close()
    assert [name for name in os.listdir(owners) if not name.startswith(".")] == []


KILLED = """
import sys, time
from pathlib import Path
from addon.store.money.sqlite.process_lock import ProcessLock
lock = ProcessLock(Path(sys.argv[1]))
print(lock.id, flush=True)
sys.stdin.read()
"""


def test_a_killed_process_is_dead(tmp_path: Path) -> None:
    mine = ProcessLock(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        other = process.stdout.readline().strip()
        assert mine.is_alive(other)
        assert find_running(tmp_path) == {mine.id, other}
        process.kill()
    assert not mine.is_alive(other)
    assert find_running(tmp_path) == {mine.id}
    mine.close()
    assert not mine.is_open
