"""``tollgate ledger forget``: no file has the user any more, and every sum is as it was."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result
from rig.archives import (
    USERS,
    archive_until_killed,
    forgotten_in,
    give_budgets,
    make_call,
    make_ledger,
    read_calls,
    read_sums,
    write_call,
)
from rig.audit import read_actions
from rig.ledger import second_connection
from rig.ledger_commands import conf_in, path_of, run

from addon.store.money.archives.archives import find_archives
from addon.store.money.audit.audit import find_lines
from addon.store.money.reports.calls_by_id import find_client_calls
from addon.store.money.reports.report import open_report

ANN, BEN = USERS
EMPTIED = "end_user, client_request_id and tags"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A ledger with calls of two users in one workspace, and an empty folder for archives."""
    made = conf_in(tmp_path / "one")
    make_ledger(path_of(made))
    with second_connection(path_of(made)) as other:
        other.execute("UPDATE usage SET end_user = ? WHERE rowid % 3 = 0", (BEN,))
        other.execute("UPDATE usage SET client_request_id = end_user || '/' || rowid")
        other.execute("UPDATE usage SET tags = json_object('mail', end_user)")
        give_budgets(other)
    (tmp_path / "archive").mkdir()
    return made


@pytest.fixture
def archived(conf: Path, tmp_path: Path) -> Path:
    """The same, with the calls of two months in archives."""
    assert run(conf, "archive", "--before", "2024-02", str(tmp_path / "archive")).exit_code == 0
    return conf


def forget(conf: Path, *more: str, user: str = BEN, workspace: str = "acme") -> Result:
    return run(conf, "forget", "--workspace", workspace, "--user", user, *more)


def count_named(file: Path, user: str = BEN) -> int:
    return sum(call["end_user"] == user for call in read_calls(file))


def test_without_apply_the_calls_are_only_counted(conf: Path) -> None:
    before = read_calls(path_of(conf))
    shown = forget(conf)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout == f"15 calls in {path_of(conf)}\n--apply empties {EMPTIED}\n"
    assert read_calls(path_of(conf)) == before
    assert read_actions(path_of(conf)) == []


def test_what_names_the_user_is_gone_and_the_sums_stay(conf: Path) -> None:
    path, sums = path_of(conf), read_sums(path_of(conf))
    calls = {call["id"]: call for call in read_calls(path)}
    sums["spend"] = forgotten_in(sums["spend"])
    done = forget(conf, "--apply")
    assert done.stdout == f"15 calls in {path}\n{EMPTIED} were emptied\n"
    assert read_sums(path) == sums
    for call in read_calls(path):
        was = calls[call["id"]]
        names = ("end_user", "client_request_id", "tags")
        emptied = dict.fromkeys(names) if was["end_user"] == BEN else {}
        if emptied:
            emptied["budgets"] = was["budgets"].replace(f"={BEN}", "(forgotten)")
        assert call == was | emptied
    with open_report(path) as connection:
        assert find_client_calls(connection, f"{BEN}/3", 9).calls.rows == []
    assert run(conf, "verify").exit_code == 0
    again = forget(conf, "--apply")
    assert "no call names this user" in again.stdout
    assert len(read_actions(path)) == 1


def test_no_byte_of_the_name_is_left_in_a_file(archived: Path, tmp_path: Path) -> None:
    files = [tmp_path / "archive" / f"tollgate-{month}.db" for month in ("2023-12", "2024-01")]
    options = [word for file in files for word in ("--ledger", str(file))]
    sums = read_sums(path_of(archived))
    sums["spend"] = forgotten_in(sums["spend"])
    assert any(BEN.encode() in file.read_bytes() for file in files)
    done = forget(archived, "--apply", *options)
    assert (done.exit_code, done.stderr) == (0, "")
    assert read_sums(path_of(archived)) == sums
    for file in [*files, *path_of(archived).parent.rglob("*")]:
        assert file.is_dir() or BEN.encode() not in file.read_bytes(), file
    for file in files:
        assert count_named(file, ANN) > 0
        assert run(archived, "verify", "--ledger", str(file)).exit_code == 0
    assert sorted((tmp_path / "archive").iterdir()) == files
    assert run(archived, "archive", "--before", "2024-02", str(tmp_path / "archive")).exit_code == 0


def test_the_line_of_the_audit_log_does_not_name_the_user(conf: Path) -> None:
    forget(conf, "--apply")
    with open_report(path_of(conf)) as connection:
        [line] = find_lines(connection, None, None, None, 9).records()
    assert (line["action"], line["workspace"], line["outcome"]) == ("ledger forget", "acme", "made")
    assert line["change"] == f"Forget a user of the workspace acme: 15 calls in {path_of(conf)}"
    assert BEN not in str(line)


def test_files_that_may_still_name_the_user_are_listed(archived: Path, tmp_path: Path) -> None:
    copy = path_of(archived).with_name("tollgate.db.replaced-20240101T000000Z")
    copy.touch()
    december, january = (tmp_path / "archive" / f"tollgate-{month}.db" for month in ("2023-12", "2024-01"))
    done = forget(archived, "--apply", "--ledger", str(january))
    assert done.stderr == f"not looked at, and may name the user: {december}, {copy}\n"
    assert count_named(december) > 0
    assert count_named(january) == 0


def test_a_change_of_an_archive_that_was_killed_is_ended(archived: Path, tmp_path: Path) -> None:
    january = tmp_path / "archive" / "tollgate-2024-01.db"
    forget(archived, "--apply", "--ledger", str(january))
    with second_connection(path_of(archived)) as other:
        other.execute(
            "UPDATE archives SET next_sha256 = file_sha256, file_sha256 = 'f' WHERE month = '2024-01'"
        )
    assert run(archived, "verify", "--ledger", str(january)).exit_code == 0
    assert forget(archived, "--apply", "--ledger", str(january)).exit_code == 0
    with open_report(path_of(archived)) as connection:
        assert [one.next_sha256 for one in find_archives(connection)] == [None, None]
        assert "f" not in [one.file_sha256 for one in find_archives(connection)]


@pytest.mark.parametrize("steps", [4, 5])
def test_an_archive_that_is_not_finished_is_finished_first(conf: Path, tmp_path: Path, steps: int) -> None:
    archive_until_killed(path_of(conf), tmp_path / "archive", steps)
    refused = forget(conf, "--apply")
    assert refused.exit_code == 1
    assert "the archive of 2023-12 is not finished: run tollgate ledger archive again first" in refused.stderr
    assert count_named(path_of(conf)) == 15


def test_late_calls_of_an_archived_month_are_forgotten_here(archived: Path) -> None:
    row = make_call(700_000, datetime(2024, 1, 31, tzinfo=UTC), end_user=BEN)
    write_call(path_of(archived), row)
    assert forget(archived, "--apply").exit_code == 0
    assert count_named(path_of(archived)) == 0


def test_what_can_not_be_done_is_refused(archived: Path, tmp_path: Path) -> None:
    unknown = forget(archived, workspace="acne")
    assert (unknown.exit_code, 'did you mean "acme"?' in unknown.stderr) == (1, True)
    missing = forget(archived, "--ledger", str(tmp_path / "no.db"))
    assert missing.stderr == f"Error: {tmp_path}/no.db: no such file\n"
    itself = forget(archived, "--ledger", str(path_of(archived)))
    assert itself.stderr == f"Error: {path_of(archived)} is no archive of this ledger\n"
    january = tmp_path / "archive" / "tollgate-2024-01.db"
    with second_connection(january) as other:
        other.execute("UPDATE usage SET finish_reason = 'changed'")
    changed = forget(archived, "--apply", "--ledger", str(january))
    assert f"{january} is not as it was recorded" in changed.stderr
    empty = conf_in(tmp_path / "two")
    assert forget(empty).stderr == f"Error: there is no ledger yet in {path_of(empty)}\n"
