"""``tollgate usage``: ledgers that are missing, empty, in use, or not a ledger."""

import sqlite3
from pathlib import Path

import pytest
from rig.ledger import locked_by_another, make_row, read_rows
from rig.usage_report import CALLS, run, run_json, write_rows

from addon.store.money.reports.report import open_report


def test_without_a_ledger_there_are_no_calls_and_no_file_is_created(conf: Path) -> None:
    result = run(conf)
    assert result.exit_code == 0
    assert result.stdout == f"There is no recorded call yet in {conf.parent / 'var' / 'ledger.db'}.\n"
    assert run_json(conf) == {
        "recent": [],
        "totals": {"workspace": [], "model": [], "day": []},
        "refusals": [],
    }
    assert run(conf, "--format", "csv").stdout == ",".join(make_row()) + "\n"
    assert not (conf.parent / "var").exists()


def test_an_empty_ledger_and_an_empty_selection_have_different_messages(conf: Path) -> None:
    path = write_rows(conf, [])
    assert run(conf).stdout == f"There is no recorded call yet in {path}.\n"
    assert run(conf, "--since", "1d").stdout == "No recorded call matches.\n"


def test_a_ledger_can_be_read_while_it_is_written(conf: Path, ledger: Path) -> None:
    with locked_by_another(ledger):
        assert len(run_json(conf)["recent"]) == len(CALLS)


def test_a_report_cannot_write_to_the_ledger(ledger: Path) -> None:
    with open_report(ledger) as connection, pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM usage")
    assert read_rows(ledger) == CALLS


def test_an_error_names_a_file_that_is_not_a_ledger(conf: Path) -> None:
    path = conf.parent / "var" / "ledger.db"
    path.parent.mkdir()
    path.write_text("not a database " * 100)
    result = run(conf)
    assert result.exit_code == 1
    assert result.stderr == f"Error: {path}: can't be read: file is not a database\n"


def test_a_ledger_is_found_under_a_name_with_special_characters_of_urls(tmp_path: Path) -> None:
    folder = tmp_path / "what? 100%23 #1"
    folder.mkdir()
    conf = folder / "proxy.conf"
    conf.write_text('[paths]\ndatabase = "var/ledger.db"\n')
    write_rows(conf, CALLS)
    assert len(run_json(conf)["recent"]) == len(CALLS)


def test_an_error_names_a_missing_conf_file(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere.conf")
    assert result.exit_code == 1
    assert "nowhere.conf: no such file" in result.stderr
