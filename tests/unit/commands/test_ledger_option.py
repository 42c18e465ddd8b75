"""``--ledger FILE``: reports of an archive, and what reports of the ledger say about archived calls."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from rig.archives import make_ledger, read_calls
from rig.ledger import second_connection
from rig.ledger_commands import conf_in, path_of
from rig.settings_files import write_files

from addon.cli import main


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A ledger whose calls of December and January are archived."""
    made = conf_in(tmp_path / "one")
    write_files(made.parent)
    made.write_text(made.read_text() + '\n[paths]\ndatabase = "var/tollgate.db"\n')
    make_ledger(path_of(made))
    (tmp_path / "archive").mkdir()
    assert run(made, "ledger", "archive", "--before", "2024-02", str(tmp_path / "archive")).exit_code == 0
    return made


@pytest.fixture
def december(tmp_path: Path) -> Path:
    return tmp_path / "archive" / "tollgate-2023-12.db"


def run(conf: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--conf", str(conf)])


def test_usage_of_an_archive_has_its_calls_and_totals_and_no_limits(conf: Path, december: Path) -> None:
    found = json.loads(run(conf, "usage", "--json", "--limit", "99", "--ledger", str(december)).stdout)
    assert sorted(call["id"] for call in found["recent"]) == [call["id"] for call in read_calls(december)]
    assert sum(row["calls"] for row in found["totals"]["workspace"]) == 17
    assert "limits" not in found
    refused = run(conf, "usage", "--by", "limits", "--ledger", str(december))
    assert (refused.exit_code, "no --ledger" in refused.stderr) == (2, True)


def test_a_report_says_which_calls_it_lacks(conf: Path, december: Path) -> None:
    files = ", ".join(str(december).replace("2023-12", month) for month in ("2023-12", "2024-01"))
    months = f"2023-12, 2024-01; --ledger FILE shows them: {files}\n"
    recent = run(conf, "usage", "--limit", "20")
    assert f"earlier calls are archived of {months}" in recent.stderr
    assert "archived" not in run(conf, "usage", "--limit", "5").stderr
    assert "archived" not in run(conf, "usage", "--by", "day").stderr
    assert "archived" not in run(conf, "usage", "--since", "2024-02-01").stderr
    exact = run(conf, "usage", "--by", "day", "--status", "200")
    assert f"these sums lack archived calls of {months}" in exact.stderr
    part = run(conf, "usage", "--by", "day", "--since", "2023-12-10T09:30")
    assert f"these sums lack archived calls of 2023-12; --ledger FILE shows them: {december}\n" in part.stderr


def test_the_history_of_a_wallet_is_in_the_archive(conf: Path, december: Path) -> None:
    here = run(conf, "wallet", "history", "acme", "--json", "--limit", "99")
    there = run(conf, "wallet", "history", "acme", "--json", "--limit", "99", "--ledger", str(december))
    kept = [entry["created_at"][:7] for entry in json.loads(here.stdout) if entry["reference"] == "call"]
    assert set(kept) == {"2024-02"}
    assert "earlier calls are archived of 2023-12, 2024-01" in here.stderr
    assert {entry["created_at"][:7] for entry in json.loads(there.stdout)} == {"2023-12"}
    assert there.stderr == ""


def test_verify_compares_an_archive_with_its_record(conf: Path, december: Path) -> None:
    sound = run(conf, "ledger", "verify", "--ledger", str(december))
    assert (sound.exit_code, sound.stdout.startswith("17 calls, ")) == (0, True)
    with second_connection(path_of(conf)) as other:
        other.execute("UPDATE archives SET retail_nanousd = 1, file_sha256 = 'f' WHERE month = '2023-12'")
        other.execute("UPDATE archived_workspaces SET charges = 1 WHERE month = '2023-12'")
    wrong = run(conf, "ledger", "verify", "--ledger", str(december))
    assert wrong.exit_code == 1
    for line in ("its SHA-256 is", "it has other calls or costs", "wallets of workspaces paid other costs"):
        assert f"archive of 2023-12: {line}" in wrong.stdout
    with second_connection(path_of(conf)) as other:
        other.execute("DELETE FROM archives WHERE month = '2023-12'")
    assert "the ledger has no record of it" in run(conf, "ledger", "verify", "--ledger", str(december)).stdout


def test_a_changed_archive_is_found(conf: Path, december: Path) -> None:
    with second_connection(december) as other:
        other.execute(
            "UPDATE usage SET retail_nanousd = retail_nanousd + 1 WHERE id = (SELECT min(id) FROM usage)"
        )
    found = run(conf, "ledger", "verify", "--ledger", str(december))
    assert found.exit_code == 1
    assert "nano-USD wholesale and" in found.stdout
    assert "rollups: the sums are others than those that are recorded" in found.stdout


def test_an_archive_of_another_ledger_is_checked_by_itself(
    conf: Path, december: Path, tmp_path: Path
) -> None:
    other = conf_in(tmp_path / "two")
    found = run(other, "ledger", "verify", "--ledger", str(december))
    assert (found.exit_code, "is of another ledger" in found.stderr) == (0, True)


@pytest.mark.parametrize(
    "command", [["usage"], ["wallet", "history", "acme"], ["ledger", "verify"]], ids=" ".join
)
def test_only_a_ledger_is_read(conf: Path, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "text.db").write_text("no database" * 99)
    with second_connection(tmp_path / "empty.db") as other:
        other.execute("CREATE TABLE usage (id TEXT)")
    missing = run(conf, *command, "--ledger", str(tmp_path / "no.db"))
    assert (missing.exit_code, missing.stderr) == (1, f"Error: {tmp_path}/no.db: no such file\n")
    assert "can't be read" in run(conf, *command, "--ledger", str(tmp_path / "text.db")).stderr
    other_file = run(conf, *command, "--ledger", str(tmp_path / "empty.db"))
    assert other_file.stderr == f"Error: {tmp_path}/empty.db is no ledger of Tollgate\n"


def test_each_command_that_reads_calls_has_the_option() -> None:
    group = main.get_command(click.Context(main), "ledger")
    assert isinstance(group, click.Group)
    for command in (group.commands["verify"], group.commands["reconcile"]):
        assert "--ledger" in [name for one in command.params for name in one.opts]
