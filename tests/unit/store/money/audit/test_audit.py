"""The audit log is append-only, and each change that was made has exactly one line, even if its process died."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from addon.store.money.audit.audit import MAX_CHANGE_CHARS, AuditLine, AuditLog, find_lines
from addon.store.money.audit.audit_evidence import Evidence, Outcome
from addon.store.money.sqlite.connection import open_connection
from addon.store.money.sqlite.place import SqlitePlace
from addon.store.money.verify.verify import verify
from addon.store.protocol import StoreUnavailable

LINE = AuditLine("console", "127.0.0.1", "ab12", "keys set", "acme", "ci", "Change the key ci\n+label = 1")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_connection(tmp_path / "ledger.db")) as connection:
        yield connection


@pytest.fixture
def audit(ledger: sqlite3.Connection, tmp_path: Path) -> AuditLog:
    return AuditLog(SqlitePlace(tmp_path / "ledger.db"), tmp_path)


def lines(ledger: sqlite3.Connection, **wanted: Any) -> list[dict[str, Any]]:
    given = {"workspace": None, "action": None, "before": None, "limit": 50} | wanted
    return find_lines(ledger, **given).records()


def test_a_change_has_one_line(ledger: sqlite3.Connection, audit: AuditLog) -> None:
    audit.end(audit.note_intent(LINE, {"file": "x"}), "made")
    [line] = lines(ledger)
    assert (line["number"], line["action"], line["subject"], line["outcome"]) == (1, "keys set", "ci", "made")
    assert line["change"] == LINE.change
    assert ledger.execute("SELECT count(*) FROM audit_intents").fetchone() == (0,)


def test_a_change_that_was_not_made_has_none(ledger: sqlite3.Connection, audit: AuditLog) -> None:
    audit.end(audit.note_intent(LINE, {}), "not made")
    assert lines(ledger) == []
    audit.end(audit.note_intent(LINE, {}), "made")
    assert [line["number"] for line in lines(ledger)] == [1]


@pytest.mark.parametrize(
    ("outcome", "found"), [("made", ["made"]), ("not made", []), ("unknown", ["unknown"])]
)
def test_what_a_dead_process_left_is_judged_once(
    ledger: sqlite3.Connection, audit: AuditLog, outcome: Outcome, found: list[str]
) -> None:
    audit.note_intent(LINE, {"file": "x"})
    seen: list[Evidence] = []

    def judge(_: sqlite3.Connection, evidence: Evidence) -> Outcome:
        seen.append(evidence)
        return outcome

    audit.end_abandoned_intents(judge)
    audit.end_abandoned_intents(judge)
    assert seen == [{"file": "x"}]
    assert [line["outcome"] for line in lines(ledger)] == found


def test_a_ledger_that_is_not_made_yet_has_nothing_of_a_dead_process(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    AuditLog(SqlitePlace(path), tmp_path).end_abandoned_intents(lambda *_: "made")
    assert not path.exists()
    path.touch()
    AuditLog(SqlitePlace(path), tmp_path).end_abandoned_intents(lambda *_: "made")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET address = 'x'",
        "DELETE FROM audit",
        "DELETE FROM audit WHERE number = 1",
        "REPLACE INTO audit SELECT * FROM audit",
        "INSERT OR REPLACE INTO audit SELECT * FROM audit",
    ],
)
def test_no_line_is_changed_or_removed(ledger: sqlite3.Connection, audit: AuditLog, statement: str) -> None:
    audit.end(audit.note_intent(LINE, {}), "made")
    before = lines(ledger)
    with pytest.raises(sqlite3.IntegrityError, match="the audit log is append-only"):
        ledger.execute(statement)
    assert lines(ledger) == before
    assert verify(ledger) == []


def test_a_line_that_was_removed_by_force_is_reported(ledger: sqlite3.Connection, audit: AuditLog) -> None:
    for _ in range(3):
        audit.end(audit.note_intent(LINE, {}), "made")
    ledger.execute("DROP TRIGGER audit_no_DELETE")
    ledger.execute("DELETE FROM audit WHERE number = 3")
    assert verify(ledger) == [
        "audit: 3 lines were written, 2 are there",
        "audit: the triggers that keep its lines are missing",
    ]


def test_a_table_that_was_dropped_is_reported(ledger: sqlite3.Connection, audit: AuditLog) -> None:
    audit.end(audit.note_intent(LINE, {}), "made")
    ledger.execute("DROP TABLE audit")
    assert verify(ledger) == ["audit: the table is missing"]


def test_a_line_is_bounded_and_has_no_credential(ledger: sqlite3.Connection, audit: AuditLog) -> None:
    secret = "sk-proj-0123456789abcdef"
    line = AuditLine("console", "::1", "", "keys set", "acme", secret, f"{secret} \ud800 " + "x" * 20_000)
    audit.end(audit.note_intent(line, {}), "made")
    [found] = lines(ledger)
    assert secret not in str(found)
    assert len(found["change"]) <= MAX_CHANGE_CHARS + 20


def test_lines_are_filtered_and_paged_by_number(ledger: sqlite3.Connection, audit: AuditLog) -> None:
    for workspace, action in [("a", "x"), ("b", "x"), ("a", "y"), ("a", "x")]:
        line = AuditLine("console", "::1", "", action, workspace, None, "")
        audit.end(audit.note_intent(line, {}), "made")

    def numbers(**wanted: Any) -> list[int]:
        return [line["number"] for line in lines(ledger, **wanted)]

    assert numbers() == [4, 3, 2, 1]
    assert numbers(limit=2) == [4, 3]
    assert numbers(before=3) == [2, 1]
    assert numbers(workspace="a", action="x") == [4, 1]


def test_a_ledger_that_is_gone_is_not_made_again(audit: AuditLog, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").rename(tmp_path / "moved.db")
    with pytest.raises(StoreUnavailable):
        audit.note_intent(LINE, {})
    assert not (tmp_path / "ledger.db").exists()
