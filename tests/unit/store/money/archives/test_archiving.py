"""Archives of whole months: wherever a run is killed, no call is lost, none counts twice, and the sums stay."""

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig.archives import (
    BEFORE,
    MONTHS,
    NOW,
    archive,
    archive_until_killed,
    find_tried,
    make_call,
    make_ledger,
    read_calls,
    read_sums,
    write_call,
)
from rig.audit import read_actions
from rig.large import large, sized
from rig.ledger import second_connection

from addon.store.money.archives.archive_file import hash_file
from addon.store.money.archives.archived_ledger import ArchiveRefused
from addon.store.money.archives.archived_sqlite import SqliteArchivedLedger
from addon.store.money.archives.archives import find_archives, read_content
from addon.store.money.reports.report import find_entries, open_report
from addon.store.money.sqlite.recount import recount
from addon.store.money.verify.verify import verify


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with 45 calls of three months. Tests use copies of it."""
    ledger = tmp_path_factory.mktemp("made") / "tollgate.db"
    make_ledger(ledger)
    return ledger


@pytest.fixture
def ledger(made: Path, tmp_path: Path) -> Path:
    return copy_of(made, tmp_path)


def copy_of(made: Path, folder: Path) -> Path:
    (folder / "var").mkdir()
    (folder / "archive").mkdir()
    shutil.copy(made, folder / "var" / "tollgate.db")
    return folder / "var" / "tollgate.db"


def folder_of(ledger: Path) -> Path:
    return ledger.parent.parent / "archive"


def file_of(ledger: Path, month: str) -> Path:
    return folder_of(ledger) / f"tollgate-{month}.db"


def files_of(ledger: Path) -> list[Path]:
    return sorted(file for file in folder_of(ledger).iterdir() if not file.name.startswith("."))


def run(ledger: Path, before: str = BEFORE) -> list[str]:
    return [step.text for step in archive(ledger, folder_of(ledger), before) if step.text]


def test_a_month_becomes_a_ledger_of_its_own_and_its_sums_stay(ledger: Path) -> None:
    before, calls, tried = read_sums(ledger), read_calls(ledger), find_tried(ledger)
    done = run(ledger)
    assert [line[:7] for line in done] == list(MONTHS)
    assert read_sums(ledger) == before
    assert {call["created_at"][:7] for call in read_calls(ledger)} == {BEFORE}
    assert {one[1][:7] for one in find_tried(ledger)} == {BEFORE}
    for month in MONTHS:
        file = file_of(ledger, month)
        assert file.stat().st_mode & 0o777 == 0o600
        assert read_calls(file) == [call for call in calls if call["created_at"][:7] == month]
        assert find_tried(file) == [one for one in tried if one[1].startswith(month)] != []
        with open_report(file) as connection:
            assert verify(connection) == []
            assert len(connection.execute("SELECT * FROM prices").fetchall()) == 1
    assert run(ledger) == []
    assert read_actions(ledger) == [("ledger archive", "made")] * 2


def test_credits_and_refusals_are_in_the_file_and_stay_here(ledger: Path) -> None:
    run(ledger)
    for file in (ledger, file_of(ledger, "2023-12")):
        with open_report(file) as connection:
            entries = find_entries(connection, "acme", 100).records()
            assert "acme/invoice" in [entry["id"] for entry in entries]
            assert connection.execute("SELECT sum(count) FROM refusals").fetchone() == (3,)


KILLS = st.lists(st.integers(1, 9), max_size=8)


@large
@settings(max_examples=sized(3, 40))
@given(kills=KILLS, late=st.sets(st.integers(0, 8)))
def test_wherever_runs_are_killed_the_same_sums_and_each_call_once(
    made: Path, kills: Sequence[int], late: set[int]
) -> None:
    with TemporaryDirectory() as folder:
        ledger = copy_of(made, Path(folder))
        ids = {call["id"] for call in read_calls(ledger)}
        sums = read_sums(ledger)
        for number, steps in enumerate(kills):
            archive_until_killed(ledger, folder_of(ledger), steps)
            assert read_sums(ledger) == sums
            if number in late:
                row = make_call(700_000 + 1000 * number, datetime(2024, 1, 5, number, tzinfo=UTC))
                write_call(ledger, row)
                ids.add(row["id"])
                sums = read_sums(ledger)
        run(ledger)
        assert read_sums(ledger) == sums
        found = [call["id"] for file in (ledger, *files_of(ledger)) for call in read_calls(file)]
        assert sorted(found) == sorted(ids)
        assert len(files_of(ledger)) == len(MONTHS)
        actions = read_actions(ledger)
        assert set(actions) == {("ledger archive", "made")}
        assert len(actions) == len(MONTHS) if not late else len(actions) >= len(MONTHS)
        for file in files_of(ledger):
            with open_report(file) as connection:
                assert verify(connection) == []


def test_a_late_call_completes_the_file_and_replaces_its_record(ledger: Path) -> None:
    run(ledger)
    before = hash_file(file_of(ledger, "2024-01"))
    late = make_call(800_000, datetime(2024, 1, 31, 23, 59, tzinfo=UTC))
    write_call(ledger, late)
    sums = read_sums(ledger)
    assert late["id"] in [call["id"] for call in read_calls(ledger)]
    assert len(run(ledger)) == 1
    assert read_sums(ledger) == sums
    assert late["id"] in [call["id"] for call in read_calls(file_of(ledger, "2024-01"))]
    with open_report(ledger) as connection:
        [archived] = [one for one in find_archives(connection) if one.month == "2024-01"]
    assert archived.file_sha256 == hash_file(file_of(ledger, "2024-01")) != before


@pytest.mark.parametrize("content", ["another file", "an archive of another ledger", "other calls"])
def test_a_file_that_is_not_of_this_month_is_refused_and_stays(
    ledger: Path, tmp_path: Path, content: str
) -> None:
    file = file_of(ledger, "2023-12")
    if content == "another file":
        file.write_text("precious")
    else:
        (tmp_path / "other").mkdir()
        other = copy_of(ledger, tmp_path / "other")
        with closing(sqlite3.connect(other)) as connection, connection:
            if content == "an archive of another ledger":
                connection.execute("UPDATE ledger SET id = 'other'")
        if content == "other calls":
            write_call(other, make_call(900_000, datetime(2023, 12, 24, tzinfo=UTC)))
        run(other)
        shutil.copy(file_of(other, "2023-12"), file)
    before, sums, calls = file.read_bytes(), read_sums(ledger), read_calls(ledger)
    with pytest.raises(ArchiveRefused, match="move it away"):
        run(ledger)
    assert (file.read_bytes(), read_sums(ledger), read_calls(ledger)) == (before, sums, calls)


def test_after_a_restore_the_file_of_the_same_calls_is_taken(made: Path, ledger: Path) -> None:
    run(ledger)
    files = {file: file.read_bytes() for file in files_of(ledger)}
    ledger.unlink()
    shutil.copy(made, ledger)
    assert len(run(ledger)) == 2
    assert {file: file.read_bytes() for file in files_of(ledger)} == files
    assert {call["created_at"][:7] for call in read_calls(ledger)} == {BEFORE}


@pytest.mark.parametrize(
    ("find", "change"),
    [
        ("SELECT min(id) FROM usage", "UPDATE usage SET finish_reason = 'length' WHERE id = ?"),
        ("SELECT min(call_id) FROM attempts", "UPDATE attempts SET status = 500 WHERE call_id = ?"),
    ],
    ids=["a row", "an attempt"],
)
def test_calls_are_removed_only_where_the_file_has_them_word_for_word(
    ledger: Path, find: str, change: str
) -> None:
    steps = archive(ledger, folder_of(ledger))
    while not file_of(ledger, "2023-12").exists():
        next(steps)
    with second_connection(ledger) as other:
        call_id = other.execute(f"{find} WHERE created_at < '2024'").fetchone()[0]
        other.execute(change, (call_id,))
    with pytest.raises(ArchiveRefused, match="1 calls of 2023-12 differ from those in"):
        list(steps)
    assert [call["id"] for call in read_calls(ledger) if call["created_at"] < "2024"] == [call_id]


def test_a_month_with_a_file_that_is_gone_waits_for_it_only_if_calls_are_here(ledger: Path) -> None:
    run(ledger)
    file_of(ledger, "2024-01").unlink()
    assert run(ledger) == []
    write_call(ledger, make_call(800_000, datetime(2024, 1, 31, tzinfo=UTC)))
    with pytest.raises(ArchiveRefused, match="bring the file back"):
        run(ledger)


def test_sums_of_an_archived_month_that_someone_changed_are_named(ledger: Path) -> None:
    run(ledger)
    with second_connection(ledger) as other:
        other.execute("UPDATE days SET retail_nanousd = retail_nanousd + 1 WHERE day = '2023-12-09'")
        other.execute("UPDATE rollups SET duration_buckets = '{}' WHERE hour LIKE '2024-01-1%'")
    with open_report(ledger) as connection:
        found = verify(connection)
    assert "days of 2023-12: the sums differ from the calls" in found
    assert "rollups of 2024-01: the sums differ from the calls" in found
    assert any(line.startswith("counter key:") for line in found)


def test_a_month_whose_sums_are_wrong_is_not_archived(ledger: Path) -> None:
    with second_connection(ledger) as other:
        other.execute("UPDATE days SET calls = calls + 1 WHERE day LIKE '2023-12-1%'")
    with pytest.raises(ArchiveRefused, match="days: the sums of 2023-12 differ from the calls"):
        run(ledger)
    assert files_of(ledger) == []
    assert len(read_calls(ledger)) == 45


def test_a_month_with_a_call_in_flight_waits(ledger: Path) -> None:
    with second_connection(ledger) as other:
        values = ("h", "2023-12-31T23:59:59.000+00:00", "", "acme", "ci", 0, "1-dead", 1, "{}", None)
        other.execute(f"INSERT INTO holds VALUES ({', '.join('?' * len(values))})", values)
    with pytest.raises(ArchiveRefused, match="a call of 2023-12 has not ended"):
        run(ledger)


def test_a_month_that_ended_less_than_a_day_ago_is_refused(ledger: Path) -> None:
    with pytest.raises(ArchiveRefused, match="archive the months before 2024-02"):
        run(ledger, "2024-03")
    assert NOW.day > 1


def test_only_one_process_archives_a_ledger(ledger: Path) -> None:
    with (
        SqliteArchivedLedger(ledger).alone(),
        pytest.raises(ArchiveRefused, match="another process archives"),
    ):
        run(ledger)


def test_counters_are_counted_again_from_the_sums_of_archived_months(ledger: Path) -> None:
    with open_report(ledger) as connection:
        before = recount(connection)
    run(ledger)
    write_call(ledger, make_call(800_000, datetime(2024, 1, 31, tzinfo=UTC)))
    with open_report(ledger) as connection:
        after = recount(connection)
    assert before.keys() <= after.keys()
    assert sum(one.requests for one in after.values()) == sum(one.requests for one in before.values()) + 5
    with open_report(file_of(ledger, "2024-01")) as connection:
        assert read_content(connection, "2024-01").calls > 0
