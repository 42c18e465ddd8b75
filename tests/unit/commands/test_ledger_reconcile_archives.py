"""``tollgate ledger reconcile`` of months that are archived."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rig.archives import archive, write_call
from rig.usage_report import write_rows

from addon.store.money.archives.archives import find_recorded_months
from addon.store.money.reports.report import open_report
from unit.commands.test_ledger_reconcile import CALLS, COSTS, EXPECTED, MODELS, USAGE, conf_with, run


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    file = conf_with(MODELS, tmp_path)
    write_rows(file, CALLS)
    return file


def test_an_archived_month_is_compared_with_its_file(conf: Path, tmp_path: Path) -> None:
    path = conf.parent / "var" / "ledger.db"
    list(archive(path, tmp_path, "2026-11", datetime(2026, 12, 24, tzinfo=UTC)))
    file = tmp_path / "ledger-2026-10.db"
    refused = run(conf, COSTS, USAGE)
    assert refused.exit_code == 1
    assert refused.stderr == f"Error: calls of this time are archived: add --ledger {file}\n"
    assert run(conf, COSTS, USAGE, "--ledger", file).stdout == EXPECTED
    twice = run(conf, COSTS, USAGE, "--ledger", file, "--ledger", file)
    assert twice.stderr == f"Error: {file}: the archive of this month is named twice\n"
    other = run(conf, COSTS, USAGE, "--ledger", path)
    assert other.stderr == f"Error: {path} is no archive of {path}\n"
    missing = run(conf, COSTS, USAGE, "--ledger", tmp_path / "no.db")
    assert missing.stderr == f"Error: {tmp_path}/no.db: no such file\n"


def test_calls_that_are_still_here_and_in_the_file_count_once(conf: Path, tmp_path: Path) -> None:
    path, file = conf.parent / "var" / "ledger.db", tmp_path / "ledger-2026-10.db"
    write_call(path, CALLS[0] | {"id": "later"})
    steps = archive(path, tmp_path, "2026-11", datetime(2026, 12, 24, tzinfo=UTC))
    while not is_recorded(path):
        next(steps)
    steps.close()
    with_file = json.loads(run(conf, COSTS, "--json", "--ledger", file).stdout)
    assert with_file["ledger_nanousd"] == 6_065_000_000 + CALLS[0]["wholesale_nanousd"]


def is_recorded(path: Path) -> bool:
    with open_report(path) as connection:
        return find_recorded_months(connection) != []
