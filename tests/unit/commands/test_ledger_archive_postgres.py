"""``tollgate ledger archive`` and ``forget`` with a ledger in PostgreSQL: as with SQLite, to the byte."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result
from rig.archives import USERS, forgotten_in, give_budgets, make_ledger, read_calls, read_sums
from rig.bounds import BOUND_S
from rig.ledger import second_connection
from rig.ledger_commands import conf_in, path_of
from rig.settings_files import write_files

from addon.cli import main
from addon.store.money.audit.audit import find_lines
from addon.store.money.postgres import merging
from addon.store.money.postgres.ledger import PostgresPlace
from addon.store.money.postgres.sum_schema import COUNTER_PARTS, MERGING_LOCK

ANN, BEN = USERS
REPORTS = (
    ("usage", "--limit", "99"),
    ("usage", "--json", "--limit", "99"),
    ("usage", "--by", "day", "--csv"),
    ("wallet", "history", "acme", "--json"),
    ("ledger", "verify"),
)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A gateway whose ledger in SQLite has calls of two users."""
    made = conf_in(tmp_path / "one")
    write_files(made.parent)
    made.write_text(made.read_text() + '\n[paths]\ndatabase = "var/tollgate.db"\n')
    make_ledger(path_of(made))
    with second_connection(path_of(made)) as other:
        other.execute("UPDATE usage SET end_user = ? WHERE rowid % 3 = 0", (BEN,))
        other.execute("UPDATE usage SET client_request_id = end_user || '/' || rowid")
        other.execute("UPDATE usage SET tags = json_object('mail', end_user)")
        give_budgets(other)
    (tmp_path / "sqlite").mkdir()
    (tmp_path / "postgres").mkdir()
    return made


@pytest.fixture
def moved(conf: Path, postgres_url: str, tmp_path: Path) -> Path:
    """The same gateway with that ledger in PostgreSQL."""
    assert run(conf, "ledger", "copy", "--to", postgres_url).exit_code == 0
    made = tmp_path / "one" / "moved.conf"
    made.write_text(f'{conf.read_text()}[state]\nbackend = "redis"\n[ledger]\nurl = "{postgres_url}"\n')
    return made


def run(conf: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--conf", str(conf)])


def test_reports_of_an_archive_are_those_of_sqlite(
    conf: Path, moved: Path, postgres_url: str, tmp_path: Path
) -> None:
    place = PostgresPlace.of_text(postgres_url)
    sums = read_sums(place)
    done = run(moved, "ledger", "archive", "--before", "2024-02", str(tmp_path / "postgres"))
    assert (done.exit_code, done.stderr) == (0, "")
    here = run(conf, "ledger", "archive", "--before", "2024-02", str(tmp_path / "sqlite"))
    assert done.stdout == here.stdout.replace("/sqlite/", "/postgres/")
    assert read_sums(place) == sums
    for report in REPORTS:
        for month in ("2023-12", "2024-01"):
            of_each = [
                run(one, *report, "--ledger", str(tmp_path / folder / f"tollgate-{month}.db"))
                for one, folder in ((conf, "sqlite"), (moved, "postgres"))
            ]
            assert of_each[0].output == of_each[1].output
            assert [one.exit_code for one in of_each] == [0, 0]
    again = run(moved, "ledger", "archive", "--before", "2024-02", str(tmp_path / "postgres"))
    assert again.stdout == f"There are no calls from before 2024-02 in {place.name}.\n"


def test_a_user_is_forgotten_here_and_in_archives(moved: Path, postgres_url: str, tmp_path: Path) -> None:
    place = PostgresPlace.of_text(postgres_url)
    assert run(moved, "ledger", "archive", "--before", "2024-01", str(tmp_path / "postgres")).exit_code == 0
    file, sums = tmp_path / "postgres" / "tollgate-2023-12.db", read_sums(place)
    arguments = ("ledger", "forget", "--workspace", "acme", "--user", BEN, "--ledger", str(file))
    shown = run(moved, *arguments)
    named = sum(call["end_user"] == BEN for call in read_calls(place))
    filed = sum(call["end_user"] == BEN for call in read_calls(file))
    counts = f"{named} calls in {place.name}\n{filed} calls in {file}\n"
    assert (shown.exit_code, shown.stdout) == (
        0,
        f"{counts}--apply empties end_user, client_request_id and tags\n",
    )
    done = run(moved, *arguments, "--apply")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"{counts}end_user, client_request_id and tags were emptied\n"
    assert read_sums(place) == sums | {"spend": forgotten_in(sums["spend"])}
    for ledger in (place, file):
        calls = read_calls(ledger)
        assert BEN not in str(calls)
        assert ANN in str(calls)
    with place.read() as ledger:
        [line] = find_lines(ledger, None, "ledger forget", None, 9).records()
    assert (line["workspace"], line["outcome"], BEN in str(line)) == ("acme", "made", False)
    assert run(moved, "ledger", "verify", "--ledger", str(file)).exit_code == 0
    with psycopg.connect(postgres_url) as connection:
        cleaned = "SELECT relname FROM pg_stat_user_tables WHERE vacuum_count > 0 ORDER BY 1"
        assert connection.execute(cleaned).fetchall() == [
            ("spend_parts",),
            ("usage_2024_01",),
            ("usage_2024_02",),
        ]
    unread = run(moved, *arguments[:-2])
    assert unread.stderr == f"not looked at, and may name the user: {file}\n"


def test_a_user_is_forgotten_beside_a_merge_of_what_writers_have_counted(
    moved: Path, postgres_url: str
) -> None:
    place = PostgresPlace.of_text(postgres_url)
    sums = read_sums(place)
    with (
        psycopg.connect(postgres_url) as merger,
        psycopg.connect(postgres_url, autocommit=True) as watch,
        ThreadPoolExecutor(1) as pool,
    ):
        watch.execute(f"UPDATE {COUNTER_PARTS} SET writer = 7")
        merger.execute(f"SELECT pg_advisory_xact_lock({MERGING_LOCK})")
        merger.execute(merging._COUNTERS)
        forget = ("ledger", "forget", "--workspace", "acme", "--user", BEN, "--apply")
        done = pool.submit(run, moved, *forget)
        deadline_s = time.monotonic() + BOUND_S
        while not watch.execute(_WAITS).fetchone():
            assert time.monotonic() < deadline_s, "nothing waits for the merge"
            watch.execute("SELECT pg_sleep(0.02)")
        merger.commit()
        assert done.result(BOUND_S).exit_code == 0
    assert read_sums(place) == sums | {"spend": forgotten_in(sums["spend"])}
    assert run(moved, "ledger", "verify").exit_code == 0


_WAITS = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


def test_an_archive_that_is_not_finished_is_finished_first(
    moved: Path, postgres_url: str, tmp_path: Path
) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("INSERT INTO archives (month, file, next_sha256) VALUES ('2023-12', 'f', 'f')")
    refused = run(moved, "ledger", "forget", "--workspace", "acme", "--user", BEN, "--apply")
    assert refused.exit_code == 1
    assert "the archive of 2023-12 is not finished: run tollgate ledger archive again first" in refused.stderr


def test_a_ledger_that_is_away_is_named_without_its_password(moved: Path, tmp_path: Path) -> None:
    text = moved.read_text()
    moved.write_text(text[: text.index("[ledger]")] + '[ledger]\nurl = "postgresql://u:fake@127.0.0.1:1/t"\n')
    for command in (
        ("archive", "--before", "2024-01", str(tmp_path)),
        ("forget", "--workspace", "w", "--user", "u"),
    ):
        refused = run(moved, "ledger", *command)
        assert (refused.exit_code, "127.0.0.1:1/t" in refused.stderr, "fake" in refused.stderr) == (
            1,
            True,
            False,
        )
