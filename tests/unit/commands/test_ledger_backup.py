"""``tollgate ledger backup`` and ``restore``: whole, private and verified copies, and a ledger that is never lost."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.configuration import environment
from rig.large import large_only
from rig.ledger import read_ids, second_connection
from rig.ledger_commands import conf_in, live, path_of, row_of, run, use

from addon.settings.settings import load_conf
from addon.store.backends import open_store
from addon.store.money.sqlite.backup import restore
from addon.store.money.sqlite.connection import open_connection
from addon.store.money.sqlite.migration_steps import STEPS
from addon.store.protocol import Settlement, Store
from unit.store.money.sqlite.test_copies import make_earlier

SOUND = (
    "2 calls, 2 wallet entries, 1 wallets, 6 counters, 1 holds, 0 price sets, 0 refusals, 0 audit lines:"
    " no discrepancies\n"
)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A ledger with two calls, and a hold of a call that is in flight."""
    made = conf_in(tmp_path / "one")
    use(made, live)
    return made


def replaced_of(conf: Path) -> list[Path]:
    return [file for file in path_of(conf).parent.iterdir() if ".replaced-" in file.name]


def settle_one_more(conf: Path) -> None:
    async def work(store: Store) -> None:
        await store.settle(Settlement(row_of("call-9", live.__defaults__[0]), from_wallet=False))

    use(conf, work)


def test_a_backup_is_whole_private_and_verified(conf: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    done = run(conf, "backup", str(copy))
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"{copy}: {SOUND}", "")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert read_ids(copy) == ["call-1", "call-2"]
    assert {file.name for file in tmp_path.iterdir()} == {"one", "copy.db"}


def test_an_existing_file_is_replaced_only_on_request(conf: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_text("precious")
    refused = run(conf, "backup", str(copy))
    assert (refused.exit_code, refused.stderr) == (1, f"Error: {copy} exists; --force replaces it\n")
    assert copy.read_text() == "precious"
    assert run(conf, "backup", str(copy), "--force").exit_code == 0
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert read_ids(copy) == ["call-1", "call-2"]


def test_the_ledger_itself_is_never_the_target(conf: Path) -> None:
    for command in ("backup", "restore"):
        refused = run(conf, command, str(path_of(conf)), "--force")
        assert (refused.exit_code, refused.stderr) == (1, f"Error: {path_of(conf)} is the ledger itself\n")


def test_a_backup_needs_a_ledger_and_a_folder(conf: Path, tmp_path: Path) -> None:
    nowhere = run(conf, "backup", str(tmp_path / "no" / "copy.db"))
    assert nowhere.stderr == f"Error: {tmp_path}/no: no such folder\n"
    empty = run(conf_in(tmp_path / "other"), "backup", str(tmp_path / "copy.db"))
    assert empty.stderr.startswith("Error: there is no ledger yet in ")
    assert (nowhere.exit_code, empty.exit_code) == (1, 1)


def test_only_regular_files_are_replaced_and_restored(conf: Path, tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    for words in (("backup", "--force"), ("restore",)):
        refused = run(conf, *words, str(pipe))
        assert (refused.exit_code, refused.stderr) == (1, f"Error: {pipe}: is no regular file\n")
    assert pipe.is_fifo()


def test_a_discrepancy_is_shown_and_backed_up_but_restored_only_on_request(
    conf: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    with second_connection(path_of(conf)) as connection:
        connection.execute("UPDATE spend SET requests = 3 WHERE scope = 'workspace:acme'")
    done = run(conf, "backup", str(copy))
    line = "counter workspace:acme of 2026-01: 3 calls are counted, 2 are recorded"
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1] == line
    refused = run(conf, "restore", str(copy))
    assert (refused.exit_code, refused.stderr) == (1, f"Error: {copy}: {line}; --force restores it\n")
    assert replaced_of(conf) == []
    assert run(conf, "restore", str(copy), "--force").exit_code == 0


def test_a_backup_shows_names_of_others_without_control_characters(conf: Path, tmp_path: Path) -> None:
    with second_connection(path_of(conf)) as connection:
        connection.execute("INSERT INTO spend VALUES ('workspace:a\x1b[2J', '2026-01', 1, 1)")
    done = run(conf, "backup", str(tmp_path / "copy.db"))
    assert r"workspace:a\x1b[2J of 2026-01: " in done.stdout


def test_a_restore_brings_the_backup_and_keeps_the_replaced_ledger(conf: Path, tmp_path: Path) -> None:
    copy, path = tmp_path / "copy.db", path_of(conf)
    run(conf, "backup", str(copy))
    kept_bytes = copy.read_bytes()
    settle_one_more(conf)
    done = run(conf, "restore", str(copy))
    [kept] = replaced_of(conf)
    assert (done.exit_code, done.stdout) == (0, f"{path}: {SOUND}the ledger before is {kept}\n")
    assert read_ids(path) == ["call-1", "call-2"]
    # The call in flight at the backup has its row in the newer ledger.
    assert set(read_ids(kept)) == {"call-1", "call-2", "call-3", "call-9"}
    assert copy.read_bytes() == kept_bytes
    assert {stat.S_IMODE(file.stat().st_mode) for file in (path, kept)} == {0o600}
    # The next start ends the hold of the call that was in flight at the backup.
    settle_one_more(conf)
    assert set(read_ids(path)) == {"call-1", "call-2", "call-3", "call-9"}
    assert run(conf, "verify").exit_code == 0


def test_nothing_is_restored_while_a_gateway_serves_or_a_program_reads(conf: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    run(conf, "backup", str(copy))
    serving = open_store(load_conf(conf))
    with closing(serving._file):
        refused = run(conf, "restore", str(copy))
        assert refused.exit_code == 1
        assert f"a gateway serves on {path_of(conf)} (process " in refused.stderr
        serving._process.close()
        in_use = run(conf, "restore", str(copy))
        assert in_use.stderr == f"Error: another program has {path_of(conf)} open; end it first\n"
    assert replaced_of(conf) == []
    assert run(conf, "restore", str(copy)).exit_code == 0


def test_a_restore_into_an_empty_deployment_makes_its_folder(conf: Path, tmp_path: Path) -> None:
    copy, new = tmp_path / "copy.db", conf_in(tmp_path / "new")
    run(conf, "backup", str(copy))
    done = run(new, "restore", str(copy))
    assert (done.exit_code, done.stdout) == (0, f"{path_of(new)}: {SOUND}")
    assert stat.S_IMODE(path_of(new).parent.stat().st_mode) == 0o700


def test_a_backup_replaces_a_damaged_ledger_with_all_its_files(conf: Path, tmp_path: Path) -> None:
    copy, path = tmp_path / "copy.db", path_of(conf)
    run(conf, "backup", str(copy))
    path.write_bytes(b"not a database" * 1000)
    path.with_name(f"{path.name}-wal").write_bytes(b"left over")
    done = run(conf, "restore", str(copy))
    assert done.exit_code == 0, done.output
    assert read_ids(path) == ["call-1", "call-2"]
    kept = {file.suffix[-4:]: file.read_bytes()[:9] for file in replaced_of(conf)}
    assert b"not a dat" in kept.values()
    assert kept["-wal"] == b"left over"


BAD = {
    "no file": (None, "no such file"),
    "no database": (b"plain text" * 1000, "can't be copied: file is not a database"),
    "an empty file": (b"", "is no ledger of Tollgate"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_file_that_is_no_ledger_is_not_restored(conf: Path, tmp_path: Path, bad: str) -> None:
    content, reason = BAD[bad]
    copy = tmp_path / "copy.db"
    if content is not None:
        copy.write_bytes(content)
    refused = run(conf, "restore", str(copy), "--force")
    assert refused.exit_code == 1
    assert reason in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert read_ids(path_of(conf)) == ["call-1", "call-2"]
    assert not list(path_of(conf).parent.glob(".*partial*"))


def test_a_damaged_backup_is_not_restored(conf: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    run(conf, "backup", str(copy))
    content = bytearray(copy.read_bytes())
    content[8192:12_288] = b"\xff" * 4096
    copy.write_bytes(content)
    refused = run(conf, "restore", str(copy), "--force")
    assert refused.exit_code == 1
    assert "damaged" in refused.stderr or "malformed" in refused.stderr
    assert read_ids(path_of(conf)) == ["call-1", "call-2"]


def test_a_backup_of_an_earlier_version_is_restored_with_the_tables_of_this_one(tmp_path: Path) -> None:
    old, conf = tmp_path / "old" / "tollgate.db", conf_in(tmp_path / "one")
    make_earlier(old, "old")
    before = old.read_bytes()
    done = run(conf, "restore", str(old), "--force")
    assert done.exit_code == 0, done.output
    assert old.read_bytes() == before
    with second_connection(path_of(conf)) as reader:
        taken = [name for (name,) in reader.execute("SELECT name FROM _sqlite_migrations ORDER BY id")]
        assert taken == [step.__name__ for step in STEPS]


def test_a_ledger_that_waits_for_its_upgrade_is_backed_up_as_it_is(tmp_path: Path) -> None:
    conf = conf_in(tmp_path / "one")
    make_earlier(path_of(conf), "old")
    done = run(conf, "backup", str(tmp_path / "copy.db"))
    assert (done.exit_code, done.stdout) == (
        0,
        f"{tmp_path}/copy.db: whole; its tables are of an earlier version,"
        " so calls and counters were not compared\n",
    )
    assert read_ids(tmp_path / "copy.db") == ["old"]


def test_a_backup_of_a_newer_version_is_not_restored(conf: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    shutil.copy(path_of(conf), copy)
    with second_connection(copy) as other:
        other.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('tollgate', 'm9999', '')"
        )
    refused = run(conf, "restore", str(copy))
    assert refused.exit_code == 1
    assert "a newer version changed it (m9999)" in refused.stderr


@large_only
def test_a_killed_backup_leaves_no_file_of_that_name_and_the_next_one_works(
    conf: Path, tmp_path: Path
) -> None:
    with closing(open_connection(path_of(conf))) as connection:
        connection.execute("CREATE TABLE filler (bytes BLOB)")
        for _ in range(15):
            connection.execute("INSERT INTO filler VALUES (zeroblob(2000000))")
    copy, partial = tmp_path / "copy.db", tmp_path / ".copy.db.partial"
    command = [sys.executable, "-m", "addon.cli", "ledger", "backup", str(copy), "--conf", str(conf)]
    with subprocess.Popen(command, env=environment({})) as process:
        deadline = time.monotonic() + BOUND_S
        while not (partial.exists() and partial.stat().st_size):
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGKILL)
        assert process.wait(BOUND_S) == -signal.SIGKILL
    assert not copy.exists()
    assert stat.S_IMODE(partial.stat().st_mode) == 0o600
    assert run(conf, "backup", str(copy)).exit_code == 0
    assert read_ids(copy) == ["call-1", "call-2"]
    assert not partial.exists()


def test_a_ledger_that_is_restored_into_a_new_folder_is_private(conf: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "tollgate.db"
    restore(target, path_of(conf), despite_discrepancies=False)
    assert stat.S_IMODE(target.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
