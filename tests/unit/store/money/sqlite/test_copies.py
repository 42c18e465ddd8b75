"""The copy of a ledger before its tables change, and copies of a file that is being written."""

import errno
import logging
import os
import resource
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.configuration import environment
from rig.large import large_only
from rig.ledger import make_row, read_ids, second_connection
from rig.sqlite_stores import open_settle_and_close
from sqlite_utils import Database, Migrations

from addon.store.money.sqlite import copies
from addon.store.money.sqlite.copies import KEPT_COPIES, copy_database, private_file
from addon.store.money.sqlite.file import LedgerFile
from addon.store.money.sqlite.migration_steps import STEPS
from addon.store.protocol import StoreUnavailable

EARLIER = 4
"""The number of steps that the ledgers of these tests have."""
PENDING = STEPS[EARLIER].__name__


def make_earlier(path: Path, *row_ids: str) -> None:
    """Make a ledger of an earlier version, with these rows."""
    path.parent.mkdir(exist_ok=True)
    earlier = Migrations("tollgate")
    for step in STEPS[:EARLIER]:
        earlier()(step)
    with second_connection(path) as before:
        before.execute("PRAGMA journal_mode = WAL")
        earlier.apply(Database(before))
        for row_id in row_ids:
            known = {column[1] for column in before.execute("PRAGMA table_info(usage)")}
            row = {name: value for name, value in make_row(row_id).items() if name in known}
            columns, marks = ", ".join(row), ", ".join("?" * len(row))
            before.execute(f"INSERT INTO usage ({columns}) VALUES ({marks})", tuple(row.values()))


def copies_of(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir() if ".before-" in file.name)


def test_a_ledger_with_rows_is_copied_before_its_tables_change(
    ledger_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_earlier(ledger_path, "old")
    with caplog.at_level(logging.INFO, "tollgate.store"):
        LedgerFile(ledger_path).close()
    copy = ledger_path.with_name(f"{ledger_path.name}.before-{PENDING}")
    assert copies_of(ledger_path) == [copy.name]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert read_ids(copy) == read_ids(ledger_path) == ["old"]
    with second_connection(copy) as reader:
        taken = [name for (name,) in reader.execute("SELECT name FROM _sqlite_migrations ORDER BY id")]
        assert taken == [step.__name__ for step in STEPS[:EARLIER]]
    [line] = [record for record in caplog.records if record.__dict__.get("event") == "ledger copied"]
    assert line.__dict__["file"] == str(copy)
    assert not list(ledger_path.parent.glob(".*partial*"))


def test_a_ledger_without_rows_or_without_changes_is_not_copied(ledger_path: Path) -> None:
    make_earlier(ledger_path)
    for _ in range(2):
        open_settle_and_close(ledger_path, os.urandom(4).hex())
    assert copies_of(ledger_path) == []


@large_only
def test_several_processes_that_start_at_once_make_one_copy(ledger_path: Path) -> None:
    make_earlier(ledger_path, "old")
    code = "import pathlib, sys; from addon.store.money.sqlite.file import LedgerFile"
    code += "; LedgerFile(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(ledger_path)]
    started = [subprocess.Popen(command, env=environment({}), stderr=subprocess.PIPE) for _ in range(3)]
    assert [process.communicate(timeout=BOUND_S)[1] for process in started] == [b""] * 3
    assert [process.returncode for process in started] == [0] * 3
    assert len(copies_of(ledger_path)) == 1
    assert read_ids(ledger_path.with_name(copies_of(ledger_path)[0])) == read_ids(ledger_path) == ["old"]


def test_only_the_newest_copies_are_kept(ledger_path: Path) -> None:
    make_earlier(ledger_path, "old")
    for number in range(5):
        old = ledger_path.with_name(f"{ledger_path.name}.before-m{number}")
        old.touch()
        os.utime(old, (number, number))
    LedgerFile(ledger_path).close()
    names = [f"{ledger_path.name}.before-{name}" for name in (PENDING, "m3", "m4")]
    assert copies_of(ledger_path) == sorted(names)
    assert len(names) == KEPT_COPIES


@contextmanager
def limited_files(limit_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond a limit: to a writer that looks like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_without_room_for_the_copy_nothing_is_changed(ledger_path: Path) -> None:
    make_earlier(ledger_path, "old")
    before = ledger_path.read_bytes()
    refused = rf"the copy \S+before-{PENDING} can't be made first: .*; nothing was changed"
    with limited_files(len(before) // 2), pytest.raises(StoreUnavailable, match=refused):
        LedgerFile(ledger_path)
    assert ledger_path.read_bytes() == before
    assert copies_of(ledger_path) == []
    assert not list(ledger_path.parent.glob(".*partial*"))
    LedgerFile(ledger_path).close()
    assert len(copies_of(ledger_path)) == 1


def test_a_copy_shows_one_moment_while_another_thread_writes(ledger_path: Path, tmp_path: Path) -> None:
    LedgerFile(ledger_path).close()
    stop, started = threading.Event(), threading.Event()

    def write_pairs() -> None:
        with second_connection(ledger_path) as writer:
            writer.execute("PRAGMA busy_timeout = 2000")
            for number in range(1_000_000):
                if stop.is_set():
                    return
                writer.execute("BEGIN IMMEDIATE")
                for scope in ("one", "other"):
                    writer.execute("INSERT OR REPLACE INTO spend VALUES (?, 'ever', ?, 0)", (scope, number))
                writer.execute("COMMIT")
                started.set()

    writing = threading.Thread(target=write_pairs)
    writing.start()
    try:
        assert started.wait(BOUND_S)
        for number in range(10):
            copy_database(ledger_path, tmp_path / f"copy-{number}")
    finally:
        stop.set()
        writing.join(BOUND_S)
    for number in range(10):
        with second_connection(tmp_path / f"copy-{number}") as reader:
            one, other = (amount for (amount,) in reader.execute("SELECT spent_nanousd FROM spend"))
            assert one == other
            assert reader.execute("PRAGMA journal_mode").fetchone()[0] == "delete"


def test_a_private_file_has_one_user_and_is_removed(tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    (tmp_path / ".copy.db.partial").write_text("of a killed process")
    with private_file(target) as partial:
        assert (stat.S_IMODE(partial.stat().st_mode), partial.read_bytes()) == (0o600, b"")
        with pytest.raises(BlockingIOError), private_file(target):
            pass
        assert partial.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_someone_else_can_read_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("")
    os.link(tmp_path / "theirs", tmp_path / ".copy.db.partial")
    with pytest.raises(PermissionError, match="belongs to someone else"), private_file(tmp_path / "copy.db"):
        pass


def test_a_link_in_the_place_of_a_private_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("of someone else")
    (tmp_path / ".copy.db.partial").symlink_to(tmp_path / "other")
    with pytest.raises(OSError) as caught, private_file(tmp_path / "copy.db"):
        pass
    assert caught.value.errno == errno.ELOOP
    assert (tmp_path / "other").read_text() == "of someone else"


def test_a_copy_has_no_row_that_was_written_while_it_was_made(
    ledger_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_settle_and_close(ledger_path, "before")
    written: list[str] = []

    def write_once(*progress: int) -> None:
        if not written:
            written.append("during")
            open_settle_in_thread(ledger_path, "during")

    monkeypatch.setattr(copies, "_PAGES", 1)
    monkeypatch.setattr(copies, "_Progress", lambda: write_once)
    copy_database(ledger_path, tmp_path / "copy")
    assert read_ids(tmp_path / "copy") == ["before"]
    assert read_ids(ledger_path) == ["before", "during"]


def open_settle_in_thread(path: Path, row_id: str) -> None:
    writer = threading.Thread(target=open_settle_and_close, args=(path, row_id))
    writer.start()
    writer.join(BOUND_S)


def test_only_a_copy_that_makes_no_progress_for_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1000.0]
    monkeypatch.setattr("addon.store.money.sqlite.copies.time.monotonic", lambda: now_s[0])
    progress = copies._Progress()
    for remaining in (9, 8):
        progress(0, remaining, 10)
        now_s[0] += copies._STALLED_S
        progress(0, remaining, 10)
    now_s[0] += 0.1
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        progress(0, 8, 10)
