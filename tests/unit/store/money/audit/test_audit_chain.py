"""Each line of the audit log has a hash of itself and of the line before, so that no line can be changed unnoticed."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.large import large_only, sampled
from sqlite_utils import Database, Migrations

from addon.store.money.audit.audit import AuditLine, AuditLog
from addon.store.money.audit.audit_chain import GENESIS, HASHED, MAX_FAULTS, hash_line, read_chain
from addon.store.money.audit.audit_schema import CHAIN_SCHEMA
from addon.store.money.sqlite.connection import open_connection
from addon.store.money.sqlite.migration_steps import STEPS, m0017_audit_chain
from addon.store.money.sqlite.migrations import migrate
from addon.store.money.sqlite.place import SqlitePlace
from addon.store.money.verify.verify import verify

WRITERS, LINES = 4, 8


def write_lines(path: Path, count: int) -> None:
    audit = AuditLog(SqlitePlace(path), path.parent)
    for number in range(count):
        line = AuditLine("console", "::1", "ab", "keys set", "acme", f"key-{number}", f"Change {number}")
        audit.end(audit.note_intent(line, {}), "made")


def drop_triggers(ledger: sqlite3.Connection) -> None:
    """Let a program change lines, as one that has the file can."""
    for operation in ("UPDATE", "DELETE", "INSERT"):
        ledger.execute(f"DROP TRIGGER audit_no_{operation}")


def make_triggers(ledger: sqlite3.Connection) -> None:
    for statement in CHAIN_SCHEMA[2:]:
        ledger.execute(statement)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_connection(tmp_path / "ledger.db")) as connection:
        write_lines(tmp_path / "ledger.db", 5)
        yield connection


def test_the_hash_of_a_line_has_the_documented_form() -> None:
    # Computed with another program: printf '%s' '["00…0",1,"é",null]' | sha256sum, with é as its JSON escape.
    assert hash_line(GENESIS, [1, "é", None]) == (
        "df24b5eddc68777d2589d037d8902e1ecdb971f42eb5065fa4c3c03116dee30c"
    )


def test_the_head_is_the_hash_of_the_last_line(ledger: sqlite3.Connection, tmp_path: Path) -> None:
    chain = read_chain(ledger)
    stored = ledger.execute("SELECT hash FROM audit ORDER BY number").fetchall()
    assert (chain.head, chain.line, chain.faults) == (stored[-1][0], 5, [])
    write_lines(tmp_path / "ledger.db", 1)
    later = read_chain(ledger, chain.head)
    assert (later.line, later.wanted_line) == (6, 5)
    assert later.head != chain.head


def test_an_empty_log_has_the_first_head(tmp_path: Path) -> None:
    with closing(open_connection(tmp_path / "new.db")) as connection:
        assert read_chain(connection, GENESIS) == (GENESIS, 0, [], 0)


EDITED: dict[str, Any] = {name: "other" for name in HASHED if name not in ("number", "at", "outcome")}
EDITED |= {"at": "2026-01-31T12:00:00.000+00:00", "outcome": "unknown"}
EDITS = [[f"UPDATE audit SET {name} = {value!r} WHERE number = 3"] for name, value in EDITED.items()]
SWAP = "UPDATE audit SET number = CASE number WHEN 2 THEN 3 ELSE 2 END + 100 WHERE number IN (2, 3)"
INSERTED = f"""
    INSERT INTO audit ({", ".join(HASHED)}, hash)
    SELECT {", ".join(HASHED).replace("number", "6").replace(" id", " 'x'")}, hash FROM audit WHERE number = 5
"""


@sampled(every=3)
@pytest.mark.parametrize(
    ("statements", "broken"),
    [
        *((edit, 3) for edit in EDITS),
        (["UPDATE audit SET subject = NULL WHERE number = 3"], 3),
        (["UPDATE audit SET number = 9 WHERE number = 5"], 9),
        ([f"UPDATE audit SET hash = '{GENESIS}' WHERE number = 3"], 3),
        (["DELETE FROM audit WHERE number = 1"], 2),
        (["DELETE FROM audit WHERE number = 3"], 4),
        ([SWAP, "UPDATE audit SET number = number - 100 WHERE number > 100"], 2),
        ([INSERTED], 6),
    ],
)
def test_a_line_that_was_changed_removed_moved_or_inserted_is_named(
    ledger: sqlite3.Connection, statements: list[str], broken: int
) -> None:
    head = read_chain(ledger).head
    drop_triggers(ledger)
    for statement in statements:
        ledger.execute(statement)
    make_triggers(ledger)
    found = f"audit: line {broken} does not follow from the line before it"
    assert found in verify(ledger)
    # A head is still good while all lines up to it are.
    assert read_chain(ledger, head).wanted_line == (5 if broken == 6 else None)


def test_lines_that_were_cut_off_are_missed_by_who_has_the_head(ledger: sqlite3.Connection) -> None:
    head = read_chain(ledger).head
    drop_triggers(ledger)
    ledger.execute("DELETE FROM audit WHERE number > 3")
    ledger.execute("UPDATE sqlite_sequence SET seq = 3 WHERE name = 'audit'")
    make_triggers(ledger)
    assert verify(ledger) == []  # No trace is left in the file.
    assert read_chain(ledger, head).wanted_line is None


def test_a_log_that_was_written_again_is_noticed_by_who_has_a_head(ledger: sqlite3.Connection) -> None:
    chain = read_chain(ledger)
    rows = ledger.execute(f"SELECT {', '.join(HASHED)} FROM audit ORDER BY number").fetchall()
    drop_triggers(ledger)
    before = GENESIS
    for number, *rest in rows:
        rest[HASHED.index("change") - 1] = "harmless"
        before = hash_line(before, [number, *rest])
        ledger.execute("UPDATE audit SET change = 'harmless', hash = ? WHERE number = ?", (before, number))
    make_triggers(ledger)
    assert verify(ledger) == []
    assert read_chain(ledger, chain.head).wanted_line is None


def test_the_list_of_broken_lines_is_bounded(tmp_path: Path) -> None:
    with closing(open_connection(tmp_path / "ledger.db")) as connection:
        write_lines(tmp_path / "ledger.db", MAX_FAULTS + 5)
        drop_triggers(connection)
        connection.execute("UPDATE audit SET change = 'x'")
        assert len(read_chain(connection).faults) == MAX_FAULTS


WRITER = """
import sys
from pathlib import Path
from unit.store.money.audit.test_audit_chain import write_lines
write_lines(Path(sys.argv[1]), int(sys.argv[2]))
"""


@large_only
def test_writers_at_the_same_time_make_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(open_connection(path)) as connection:
        command = [sys.executable, "-c", WRITER, str(path), str(LINES)]
        environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
        writers = [subprocess.Popen(command, env=environment) for _ in range(WRITERS)]
        assert [writer.wait(BOUND_S) for writer in writers] == [0] * WRITERS
        chain = read_chain(connection)
        assert (chain.line, chain.faults) == (WRITERS * LINES, [])


def test_the_lines_of_an_earlier_version_are_chained(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as connection:
        old = Migrations("tollgate")
        for step in STEPS[: STEPS.index(m0017_audit_chain)]:
            old()(step)
        old.apply(Database(connection))
        sql = """
            INSERT INTO audit VALUES
            (NULL, '2026-01-31T12:00:00.000+00:00', 'console', '::1', 'ab', 'keys set', 'acme', 'ci', 'x', 'made')
        """
        for _ in range(4):
            connection.execute(sql)
        connection.execute("DROP TRIGGER audit_no_DELETE")
        connection.execute("DELETE FROM audit WHERE number = 4")
        connection.execute(
            "CREATE TRIGGER audit_no_DELETE BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        migrate(connection)
        chain = read_chain(connection)
        assert (chain.line, chain.faults) == (3, [])
        # The line that was removed before stays missing.
        assert verify(connection) == ["audit: 4 lines were written, 3 are there"]
        write_lines(tmp_path / "ledger.db", 1)
        [line] = connection.execute("SELECT number, user, id FROM audit WHERE number > 3").fetchall()
        assert (line[0], line[1]) == (5, "")
