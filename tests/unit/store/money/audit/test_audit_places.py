"""The audit log is one chain, in either engine, also when several machines write to it."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rig.audit import LINE

from addon.store.money.audit.audit import ABANDONED_AFTER, AuditLog, find_audit_gaps, find_lines
from addon.store.money.audit.audit_chain import read_chain
from addon.store.money.audit.audit_spool import AuditSpool
from addon.store.money.ledger import LedgerPlace
from policies.utc_time import format_utc


def lines(place: LedgerPlace) -> list[dict[str, Any]]:
    with place.read() as ledger:
        assert list(find_audit_gaps(ledger)) == []
        return find_lines(ledger, "acme", None, None, 50).records()


@pytest.fixture
def machines(place: LedgerPlace, tmp_path: Path) -> list[AuditLog]:
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    return [AuditLog(place, folder) for folder in folders]


def test_machines_write_to_one_chain(place: LedgerPlace, machines: list[AuditLog]) -> None:
    for machine in (*machines, *machines):
        machine.end(machine.note_intent(LINE, {}), "made")
    assert [line["number"] for line in lines(place)] == [4, 3, 2, 1]
    with place.read() as ledger:
        chain = read_chain(ledger)
    assert (chain.line, chain.faults) == (4, [])


def test_a_change_of_another_machine_is_not_judged_while_it_may_run(
    place: LedgerPlace, machines: list[AuditLog]
) -> None:
    one, other = machines
    intent = one.note_intent(LINE, {"file": "x"})
    other.end_abandoned_intents(lambda *_: "not made")
    one.end(intent, "made")
    assert [line["outcome"] for line in lines(place)] == ["made"]


def test_a_change_of_a_machine_that_is_gone_ends_unknown(
    place: LedgerPlace, machines: list[AuditLog]
) -> None:
    one, other = machines
    one.note_intent(LINE, {"file": "x"})
    long_ago = format_utc(datetime.now(UTC) - ABANDONED_AFTER - timedelta(minutes=1))
    with place.write() as ledger:
        ledger.execute("UPDATE audit_intents SET at = ?", (long_ago,))
    other.end_abandoned_intents(lambda *_: "made")
    assert [line["outcome"] for line in lines(place)] == ["unknown"]


def test_what_waits_becomes_lines_without_the_one_that_can_never_be_written(
    place: LedgerPlace, tmp_path: Path
) -> None:
    spool = AuditSpool(tmp_path / "ledger.db")
    for _ in range(3):
        with spool.record(LINE, {}):
            pass
    illegal = sorted((tmp_path / "ledger.db-audit").iterdir())[1]
    content = json.loads(illegal.read_text())
    content["line"]["action"] = ""
    illegal.write_text(json.dumps(content))
    assert spool.drain(place, 5) == 0
    assert [line["number"] for line in lines(place)] == [2, 1]
    assert [file.suffix for file in (tmp_path / "ledger.db-audit").iterdir()] == [".unreadable"]


def test_texts_lose_what_postgres_can_not_keep(place: LedgerPlace, machines: list[AuditLog]) -> None:
    line = type(LINE)("console", "::1", "", "keys set", "acme", "a\0b", "x\0y")
    machines[0].end(machines[0].note_intent(line, {}), "made")
    [found] = lines(place)
    assert (found["subject"], found["change"], found["user"]) == ("ab", "xy", "")
