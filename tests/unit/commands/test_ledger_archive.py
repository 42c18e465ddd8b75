"""``tollgate ledger archive``: what it prints, refuses and leaves in the audit log."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from rig.archives import make_call, make_ledger, read_calls, read_sums, write_call
from rig.audit import read_actions
from rig.ledger import second_connection
from rig.ledger_commands import conf_in, path_of, run

from addon.store.money.audit.audit import find_lines
from addon.store.money.reports.report import open_report


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    made = conf_in(tmp_path / "one")
    make_ledger(path_of(made))
    (tmp_path / "archive").mkdir()
    return made


def test_each_month_is_one_line_here_and_one_in_the_audit_log(conf: Path, tmp_path: Path) -> None:
    sums = read_sums(path_of(conf))
    done = run(conf, "archive", "--before", "2024-02", str(tmp_path / "archive"))
    assert (done.exit_code, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first == f"2023-12: 17 calls, 0.000000153 USD, in {tmp_path}/archive/tollgate-2023-12.db"
    assert second.startswith("2024-01: 19 calls, ")
    assert read_sums(path_of(conf)) == sums
    assert read_actions(path_of(conf)) == [("ledger archive", "made")] * 2
    with open_report(path_of(conf)) as connection:
        lines = find_lines(connection, None, "ledger archive", None, 9).records()
    assert f"Archive 2023-12 in {tmp_path}/archive/tollgate-2023-12.db: 17 calls" in lines[1]["change"]
    again = run(conf, "archive", "--before", "2024-02", str(tmp_path / "archive"))
    assert again.stdout == f"There are no calls from before 2024-02 in {path_of(conf)}.\n"
    assert len(read_actions(path_of(conf))) == 2


@pytest.mark.parametrize(
    ("before", "folder", "status", "message"),
    [
        ("2024-13", "archive", 2, "'2024-13' is not a month such as 2026-01"),
        ("2024-02", "no", 1, "no: no such folder"),
        ("2999-01", "archive", 1, "ended less than a day ago, or has not ended: archive the months before "),
    ],
)
def test_what_can_not_be_archived_is_refused(
    conf: Path, tmp_path: Path, before: str, folder: str, status: int, message: str
) -> None:
    refused = run(conf, "archive", "--before", before, str(tmp_path / folder))
    assert (refused.exit_code, message in refused.stderr) == (status, True)
    assert len(read_calls(path_of(conf))) == 45
    assert read_actions(path_of(conf)) == []


def test_without_a_ledger_there_is_nothing_to_archive(tmp_path: Path) -> None:
    empty = conf_in(tmp_path / "one")
    refused = run(empty, "archive", "--before", "2024-02", str(tmp_path))
    assert (refused.exit_code, refused.stderr) == (1, f"Error: there is no ledger yet in {path_of(empty)}\n")
    assert not path_of(empty).exists()


def test_an_archive_is_no_ledger_that_a_gateway_may_write(conf: Path, tmp_path: Path) -> None:
    run(conf, "archive", "--before", "2024-02", str(tmp_path / "archive"))
    other = conf_in(tmp_path / "two")
    other.write_text(f'[paths]\ndatabase = "{tmp_path}/archive/tollgate-2024-01.db"\n')
    refused = run(other, "recount")
    assert refused.exit_code == 1
    assert "is the archive of 2024-01; [paths] database names the ledger" in refused.stderr


def test_sums_of_an_archived_month_are_not_counted_again(conf: Path, tmp_path: Path) -> None:
    run(conf, "archive", "--before", "2024-02", str(tmp_path / "archive"))
    with second_connection(path_of(conf)) as other:
        other.execute("UPDATE key_hours SET calls = calls + 1 WHERE hour LIKE '2024-0%'")
    refused = run(conf, "recount")
    assert refused.exit_code == 1
    assert "the sums of 2024-01 can't be counted again here: the calls are archived" in refused.stderr
    verified = run(conf, "verify")
    assert "key_hours of 2024-01: the sums differ from the calls" in verified.stdout
    assert "key_hours of 2024-02" not in verified.stdout


def test_a_late_call_is_in_the_next_run(conf: Path, tmp_path: Path) -> None:
    run(conf, "archive", "--before", "2024-02", str(tmp_path / "archive"))
    row = make_call(800_000, datetime(2024, 1, 31, tzinfo=UTC))
    write_call(path_of(conf), row)
    done = run(conf, "archive", "--before", "2024-02", str(tmp_path / "archive"))
    assert done.stdout.startswith("2024-01: 20 calls, ")
