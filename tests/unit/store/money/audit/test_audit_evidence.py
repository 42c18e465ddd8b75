"""What can be found out about a change whose process ended before it said whether it made it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from addon.edits.workspace_files import hash_content
from addon.store.money.audit.audit_evidence import find_folder, judge, judge_files

TEXT = b"name = 'Acme'"


@pytest.fixture
def ledger() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as opened:
        yield opened


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [(b"", TEXT, "made"), (TEXT, b"", "not made"), (b"", b"other", "unknown")],
)
def test_a_file_tells_by_its_content(
    ledger: sqlite3.Connection, tmp_path: Path, before: bytes, after: bytes, outcome: str
) -> None:
    file = tmp_path / "acme.toml"
    file.write_bytes(TEXT)
    evidence = {"file": str(file), "before": hash_content(before), "after": hash_content(after)}
    assert judge(ledger, evidence) == judge_files(evidence) == outcome
    assert find_folder(evidence) == tmp_path


@pytest.mark.parametrize(("before", "outcome"), [("", "not made"), ("x", "unknown")])
def test_a_file_that_is_not_there_has_no_content(
    ledger: sqlite3.Connection, tmp_path: Path, before: str, outcome: str
) -> None:
    evidence = {"file": str(tmp_path / "acme.toml"), "before": before, "after": hash_content(TEXT)}
    assert judge(ledger, evidence) == outcome


def test_what_can_not_be_read_tells_nothing(ledger: sqlite3.Connection, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(TEXT)
    below = str(tmp_path / "file" / "acme.toml")
    assert judge(ledger, {"file": below, "before": "", "after": "x"}) == "unknown"
    assert judge(ledger, {"replaced": below, "inode": 1}) == "unknown"


def test_a_replaced_file_tells_by_its_number(ledger: sqlite3.Connection, tmp_path: Path) -> None:
    file, gone = tmp_path / "tollgate.db", tmp_path / "gone.db"
    file.write_bytes(TEXT)
    number = file.stat().st_ino
    assert judge(ledger, {"replaced": str(file), "inode": number}) == "not made"
    assert judge(ledger, {"replaced": str(file), "inode": number + 1}) == "made"
    assert judge(ledger, {"replaced": str(file), "inode": None}) == "unknown"
    assert judge(ledger, {"replaced": str(gone), "inode": None}) == "not made"
    assert judge(ledger, {"replaced": str(gone), "inode": number}) == "unknown"


def test_a_change_without_evidence_is_unknown(ledger: sqlite3.Connection) -> None:
    assert (judge(ledger, {}), judge_files({}), find_folder({})) == ("unknown", None, None)


def test_a_file_that_can_not_be_looked_at_tells_nothing_and_the_ledger_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert judge_files({"replaced": str(tmp_path / "file" / "tollgate.db"), "inode": 7}) == "unknown"
