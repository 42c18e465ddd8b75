"""The changes of commands reach the audit log once, whatever happens to the ledger, to the file or to the process."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import copytree

import pytest
from rig.audit import LINE, die_during
from rig.ledger import locked_by_another

from addon.edits.recording import Evidence, file_evidence
from addon.edits.workspace_files import hash_content
from addon.runtime.folder_lock import locked
from addon.store.money.audit.audit import find_lines
from addon.store.money.audit.audit_chain import read_chain
from addon.store.money.audit.audit_drain import AuditDrain
from addon.store.money.audit.audit_spool import MAX_BATCH, AuditSpool
from addon.store.money.reports.report import open_report
from addon.store.money.sqlite.connection import open_connection
from addon.store.money.sqlite.place import SqlitePlace
from addon.store.protocol import StoreUnavailable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "var" / "ledger.db"


@pytest.fixture
def spool(path: Path) -> AuditSpool:
    return AuditSpool(path)


def make_ledger(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    open_connection(path).close()


def outcomes(path: Path) -> list[str]:
    with open_report(path) as ledger:
        assert read_chain(ledger).faults == []
        return [line["outcome"] for line in find_lines(ledger, None, None, None, 500).records()]


def files(path: Path) -> list[str]:
    folder = path.with_name(f"{path.name}-audit")
    return sorted(file.suffix for file in folder.iterdir()) if folder.exists() else []


def change(spool: AuditSpool, evidence: Evidence | None = None, *, is_made: bool = True) -> None:
    with spool.record(LINE, evidence or {}) as recording:
        recording.is_made = is_made


@pytest.fixture
def changed(spool: AuditSpool, path: Path, tmp_path: Path) -> Path:
    """The file of a change whose process died after it was made."""
    make_ledger(path)
    file = tmp_path / "acme.toml"
    file.write_text("after")
    die_during(spool, file_evidence(file, b"before", "after"))
    return file


def test_a_change_becomes_a_line_with_who_made_it(spool: AuditSpool, path: Path) -> None:
    make_ledger(path)
    change(spool)
    assert files(path) == [".made"]
    assert spool.drain(SqlitePlace(path), 1) == 0
    with open_report(path) as ledger:
        [line] = find_lines(ledger, None, None, None, 9).records()
    assert (line["source"], line["user"], line["action"]) == ("command", "alice (sudo: bob)", "keys set")
    assert (line["workspace"], line["subject"], line["outcome"]) == ("acme", "ci", "made")
    assert (files(path), spool.is_empty()) == ([], True)


def test_what_was_not_made_has_no_line(spool: AuditSpool, path: Path) -> None:
    make_ledger(path)
    change(spool, is_made=False)
    assert files(path) == []


def test_a_change_is_on_the_disk_with_its_line_before_it_is_made(spool: AuditSpool, path: Path) -> None:
    with spool.record(LINE, {}):
        [file] = path.with_name("ledger.db-audit").iterdir()
        assert "Change the key ci" in file.read_text()
        assert (file.suffix, file.stat().st_mode & 0o777) == (".intent", 0o600)
        assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_missing_ledger_gets_its_lines_when_it_is_made(spool: AuditSpool, path: Path) -> None:
    for _ in range(3):
        change(spool)
    assert spool.drain(SqlitePlace(path), 1) == 3
    assert not path.exists()
    make_ledger(path)
    assert spool.drain(SqlitePlace(path), 1) == 0
    assert outcomes(path) == ["made"] * 3


def test_a_locked_ledger_delays_the_lines(spool: AuditSpool, path: Path) -> None:
    make_ledger(path)
    change(spool)
    with locked_by_another(path), pytest.raises(StoreUnavailable, match="locked"):
        spool.drain(SqlitePlace(path), 0.01)
    assert files(path) == [".made"]
    assert spool.drain(SqlitePlace(path), 1) == 0
    assert outcomes(path) == ["made"]


async def test_the_gateway_writes_what_waits_and_reports_a_fault_once(
    spool: AuditSpool, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("addon.store.money.audit.audit_drain._TIMEOUT_S", 0.01)
    make_ledger(path)
    change(spool)
    drain = AuditDrain(path, SqlitePlace(path))
    with locked_by_another(path):
        await drain.look()
        await drain.look()
    assert caplog.text.count("changes of commands are not in the audit log yet") == 1
    await drain.look()
    assert outcomes(path) == ["made"]


def test_a_line_is_written_once_though_its_file_comes_back(spool: AuditSpool, path: Path) -> None:
    """As after a process that was killed between the line and the removal of the file."""
    make_ledger(path)
    for _ in range(2):
        change(spool)
    folder = path.with_name("ledger.db-audit")
    copytree(folder, folder.with_name("kept"))
    spool.drain(SqlitePlace(path), 1)
    copytree(folder.with_name("kept"), folder, dirs_exist_ok=True)
    spool.drain(SqlitePlace(path), 1)
    assert (outcomes(path), files(path)) == (["made"] * 2, [])


def test_more_changes_than_one_transaction_takes_are_written(spool: AuditSpool, path: Path) -> None:
    make_ledger(path)
    change(spool)
    folder = path.with_name("ledger.db-audit")
    [file] = folder.iterdir()
    [change_id] = [file.stem.rpartition("-")[2]]
    for number in range(MAX_BATCH + 3):
        fresh = f"{number:032x}"
        (folder / f"{number:04}-{fresh}.made").write_text(file.read_text().replace(change_id, fresh))
    assert spool.drain(SqlitePlace(path), 1) == 0
    assert len(outcomes(path)) == MAX_BATCH + 4


@pytest.mark.parametrize(
    ("content", "outcome"), [("before", []), ("after", ["made"]), ("another", ["unknown"])]
)
def test_the_file_says_whether_a_process_that_died_made_its_change(
    spool: AuditSpool, path: Path, tmp_path: Path, content: str, outcome: list[str]
) -> None:
    make_ledger(path)
    changed = tmp_path / "acme.toml"
    die_during(spool, file_evidence(changed, b"before", "after"))
    changed.write_text(content)
    spool.drain(SqlitePlace(path), 1)
    assert outcomes(path) == outcome


def test_a_dead_change_is_judged_before_the_file_is_changed_again(
    spool: AuditSpool, path: Path, changed: Path
) -> None:
    with locked(changed.parent):
        spool.settle(changed.parent)
        changed.write_text("later")
    spool.drain(SqlitePlace(path), 1)
    assert outcomes(path) == ["made"]


def test_no_change_is_judged_while_another_process_may_change_its_file(
    spool: AuditSpool, path: Path, changed: Path
) -> None:
    with locked(changed.parent):
        assert spool.drain(SqlitePlace(path), 1) == 0
        assert files(path) == [".intent"]
    spool.drain(SqlitePlace(path), 1)
    assert outcomes(path) == ["made"]


def test_a_dead_change_in_a_folder_that_is_gone_is_judged(
    spool: AuditSpool, path: Path, tmp_path: Path
) -> None:
    make_ledger(path)
    die_during(spool, file_evidence(tmp_path / "gone" / "acme.toml", b"before", "after"))
    assert spool.drain(SqlitePlace(path), 1) == 0
    assert outcomes(path) == ["unknown"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_of_another_user_is_reported_and_stops_no_other(spool: AuditSpool, path: Path) -> None:
    make_ledger(path)
    change(spool)
    [file] = path.with_name("ledger.db-audit").iterdir()
    file.chmod(0)
    change(spool)
    with pytest.raises(PermissionError):
        spool.drain(SqlitePlace(path), 1)
    assert outcomes(path) == ["made"]


def test_a_change_of_a_process_that_lives_is_left(spool: AuditSpool, path: Path) -> None:
    make_ledger(path)
    with spool.record(LINE, {}):
        assert AuditSpool(path).drain(SqlitePlace(path), 1) == 0
        assert outcomes(path) == []
        assert files(path) == [".intent"]
    spool.drain(SqlitePlace(path), 1)
    assert outcomes(path) == ["made"]


def test_an_exception_is_judged_by_the_evidence(spool: AuditSpool, path: Path, tmp_path: Path) -> None:
    make_ledger(path)
    changed = tmp_path / "acme.toml"

    def write_and_fail(content: str) -> None:
        with spool.record(LINE, file_evidence(changed, b"before", "after")):
            changed.write_text(content)
            raise KeyError

    for content in ("before", "after"):
        with pytest.raises(KeyError):
            write_and_fail(content)
    spool.drain(SqlitePlace(path), 1)
    assert outcomes(path) == ["made"]


@pytest.mark.parametrize(("is_entered", "outcome"), [(True, ["made"]), (False, [])])
def test_the_ledger_says_whether_a_dead_process_made_an_entry(
    spool: AuditSpool, path: Path, is_entered: bool, outcome: list[str]
) -> None:
    make_ledger(path)
    moment = "2026-01-31T12:00:00.000+00:00"
    die_during(spool, {"entry": "acme/1", "at": moment})
    if is_entered:
        with closing(sqlite3.connect(path)) as ledger, ledger:
            ledger.execute("INSERT INTO wallet_entries VALUES ('acme/1', ?, 'acme', 5, '1')", (moment,))
    spool.drain(SqlitePlace(path), 1)
    assert outcomes(path) == outcome


def test_a_dead_restore_is_judged_by_the_file_of_the_ledger(spool: AuditSpool, path: Path) -> None:
    make_ledger(path)
    evidence = {"replaced": str(path), "inode": path.stat().st_ino}
    die_during(spool, evidence)
    spool.drain(SqlitePlace(path), 1)
    assert outcomes(path) == []
    die_during(spool, evidence)
    path.rename(path.with_name("kept.db"))
    make_ledger(path)
    spool.drain(SqlitePlace(path), 1)
    assert outcomes(path) == ["made"]


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"line": {}, "evidence": {}}', "\x00", '{"line": 1, "evidence": {}}']
)
def test_a_file_that_was_changed_by_hand_stops_no_other(
    spool: AuditSpool, path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_ledger(path)
    change(spool)
    [file] = path.with_name("ledger.db-audit").iterdir()
    file.write_text(content)
    change(spool)
    assert spool.drain(SqlitePlace(path), 1) == 0
    assert (outcomes(path), files(path)) == (["made"], [".unreadable"])
    assert str(file) in caplog.text


def test_a_line_that_the_ledger_refuses_stops_no_other(spool: AuditSpool, path: Path) -> None:
    make_ledger(path)
    change(spool)
    [file] = path.with_name("ledger.db-audit").iterdir()
    file.write_text(file.read_text().replace('"keys set"', '""'))
    change(spool)
    assert spool.drain(SqlitePlace(path), 1) == 0
    assert (outcomes(path), files(path)) == (["made"], [".unreadable"])


def test_a_spool_that_can_not_be_written_stops_the_change(spool: AuditSpool, path: Path) -> None:
    path.parent.mkdir()
    path.with_name("ledger.db-audit").write_text("in the way")
    is_made = False
    with pytest.raises(OSError, match="File exists"), spool.record(LINE, {}):
        is_made = True
    assert not is_made


def test_evidence_of_a_file_is_about_its_whole_content(tmp_path: Path) -> None:
    found = file_evidence(tmp_path / "x.toml", None, "after")
    assert (found["before"], found["after"]) == ("", hash_content(b"after"))


@pytest.fixture(autouse=True)
def _closed(path: Path) -> Iterator[None]:
    yield
    assert not list(path.parent.glob("*-audit/*.partial"))
