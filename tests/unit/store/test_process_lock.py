"""The lock files of processes."""

import os
from pathlib import Path

from rig.stores import die

from addon.store.sqlite.store import SqliteStore


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
