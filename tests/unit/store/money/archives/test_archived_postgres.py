"""Archives of a ledger in PostgreSQL: the files are those of SQLite, and no call is lost wherever a run is killed."""

import asyncio
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from rig.archives import (
    BEFORE,
    MONTHS,
    archive,
    archive_in,
    find_tried,
    is_killed_after,
    make_call,
    make_ledger,
    read_calls,
    read_sums,
)
from rig.audit import read_actions
from rig.bounds import BOUND_S
from rig.filled_ledgers import NOW as FILLED_AT
from rig.filled_ledgers import fill_both
from rig.large import large_only
from rig.postgres_server import PostgresServer

from addon.store.money.archives import archived_postgres
from addon.store.money.archives.archive_file import hash_file
from addon.store.money.archives.archived_ledger import ArchiveBusy, ArchiveRefused, Step
from addon.store.money.archives.archived_postgres import PostgresArchivedLedger
from addon.store.money.archives.archived_sqlite import SqliteArchivedLedger
from addon.store.money.archives.archives import find_archives
from addon.store.money.copying.copying import copy_ledger
from addon.store.money.ledger import LedgerPlace
from addon.store.money.postgres.ledger import PostgresPlace
from addon.store.money.postgres.money import PostgresMoney
from addon.store.money.price_set_schema import NOT_KEPT
from addon.store.money.reports.archived_calls import in_no_file
from addon.store.money.sqlite.place import SqlitePlace
from addon.store.money.verify.verify import verify
from addon.store.protocol import Settlement

PARTITIONS = "SELECT relname FROM pg_class WHERE relname ~ '^usage_[0-9_]+$' AND relkind = 'r' ORDER BY 1"


class Archiving(NamedTuple):
    """A ledger in PostgreSQL, and a folder for its archives."""

    url: str
    folder: Path

    @property
    def place(self) -> PostgresPlace:
        return PostgresPlace(SecretStr(self.url))

    @property
    def ledger(self) -> PostgresArchivedLedger:
        return PostgresArchivedLedger(self.place, "tollgate.db")

    def steps(self, before: str = BEFORE) -> Iterator[Step]:
        return archive_in(self.ledger, self.folder / "var" / "tollgate.db", self.folder, before)

    def run(self) -> list[str]:
        return [step.text for step in self.steps() if step.text]

    def file(self, month: str) -> Path:
        return self.folder / f"tollgate-{month}.db"

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("[!.]*.db"))

    def settle(self, row: dict[str, Any]) -> None:
        """Write a call as a gateway does. Its wallet paid for it."""

        async def work() -> None:
            money = PostgresMoney(SecretStr(self.url))
            await money.settle(Settlement(row, from_wallet=True))
            await money.close()

        asyncio.run(work())

    def do(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(sql)  # type: ignore[arg-type]
            return found.fetchall() if found.description else []


@pytest.fixture(scope="module")
def made(
    _shared_postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, str]]:
    """The ledger of the tests of SQLite, and a copy in PostgreSQL. Tests use copies of both."""
    path, database = tmp_path_factory.mktemp("made") / "tollgate.db", _shared_postgres.create_database()
    make_ledger(path)
    place = PostgresPlace(SecretStr(_shared_postgres.url_of(database)))
    assert copy_ledger(SqlitePlace(path), place, is_rehearsal=False).agrees
    yield path, database
    _shared_postgres.drop_database(database)


@pytest.fixture(scope="module")
def open_copy(made: tuple[Path, str], _shared_postgres: PostgresServer) -> Callable[[Path], Any]:
    @contextmanager
    def opened(folder: Path) -> Iterator[Archiving]:
        name = _shared_postgres.create_database(made[1])
        yield Archiving(_shared_postgres.url_of(name), folder)
        _shared_postgres.drop_database(name)

    return opened


@pytest.fixture
def here(open_copy: Callable[[Path], Any], tmp_path: Path) -> Iterator[Archiving]:
    with open_copy(tmp_path) as archiving:
        yield archiving


def dump(file: Path) -> list[str]:
    """Return all that a file has as SQL, but when its tables were made."""
    with closing(sqlite3.connect(file)) as connection:
        return [line for line in connection.iterdump() if '"_sqlite_migrations"' not in line]


def test_the_files_are_those_of_sqlite_and_the_sums_stay(
    made: tuple[Path, str], here: Archiving, tmp_path: Path
) -> None:
    before = read_sums(here.place)
    done = here.run()
    assert read_sums(here.place) == before
    (tmp_path / "sqlite").mkdir()
    ledger = Path(shutil.copy(made[0], tmp_path / "sqlite"))
    other = [step.text for step in archive(ledger, tmp_path / "sqlite") if step.text]
    assert done == [str(text).replace("/sqlite/", "/") for text in other]
    for month in MONTHS:
        assert dump(here.file(month)) == dump(tmp_path / "sqlite" / f"tollgate-{month}.db")
        assert here.file(month).stat().st_mode & 0o777 == 0o600
    assert {call["created_at"][:7] for call in read_calls(here.place)} == {BEFORE}
    assert {one[1][:7] for one in find_tried(here.place)} == {BEFORE}
    tables = {name for (name,) in here.do(PARTITIONS)}
    assert "usage_2024_02" in tables
    assert tables.isdisjoint({"usage_2023_12", "usage_2024_01"})
    assert here.do(
        "SELECT count(*) FROM wallet_entries WHERE created_at < '2024-02' AND reference = 'call'"
    ) == [(0,)]
    assert here.run() == []
    assert read_actions(here.place) == [("ledger archive", "made")] * 2


def test_odd_texts_are_the_same_in_the_files_of_both(postgres_url: str, tmp_path: Path) -> None:
    path = tmp_path / "sqlite" / "ledger.db"
    fill_both(path, postgres_url)
    postgres = PostgresPlace(SecretStr(postgres_url))
    places: Sequence[LedgerPlace] = (SqlitePlace(path), postgres)
    for place in places:
        with place.write() as ledger:
            ledger.execute("DELETE FROM holds")
            ledger.execute("UPDATE ledger SET id = 'one'")
            # Their costs do not follow from their counts.
            ledger.execute("UPDATE usage SET price_set = ?", (NOT_KEPT,))
    folders = (tmp_path / "in-sqlite", tmp_path / "in-postgres")
    for ledger, folder in zip(
        (SqliteArchivedLedger(path), PostgresArchivedLedger(postgres, "ledger.db")), folders, strict=True
    ):
        folder.mkdir()
        assert len([one for one in archive_in(ledger, path, folder, "2026-03", FILLED_AT) if one.text]) == 3
    for month in ("2026-01", "2026-02"):
        one, other = (dump(folder / f"ledger-{month}.db") for folder in folders)
        assert one == other
        assert sum(line.startswith('INSERT INTO "usage"') for line in one) > 9


def test_a_run_may_be_killed_after_any_step(here: Archiving) -> None:
    ids, sums = {call["id"] for call in read_calls(here.place)}, read_sums(here.place)
    for steps in count(1):  # Each run goes on where the last was killed.
        is_done = is_killed_after(steps, here.steps)
        assert count_calls(here) == dict.fromkeys(ids, 1)
        if is_done:
            break
    assert_archived(here, ids, sums)


@large_only
@settings(max_examples=12)
@given(kills=st.lists(st.integers(1, 9), max_size=6), late=st.sets(st.integers(0, 6), max_size=2))
def test_wherever_runs_are_killed_the_same_sums_and_each_call_once(
    open_copy: Callable[[Path], Any], kills: Sequence[int], late: set[int]
) -> None:
    with TemporaryDirectory() as folder, open_copy(Path(folder)) as here:
        ids, sums = {call["id"] for call in read_calls(here.place)}, read_sums(here.place)
        for number, steps in enumerate(kills):
            is_killed_after(steps, here.steps)
            assert read_sums(here.place) == sums
            if number in late:
                row = make_call(700_000 + 1000 * number, datetime(2024, 1, 5, number, tzinfo=UTC))
                here.settle(row)
                ids.add(row["id"])
                sums = read_sums(here.place)
        here.run()
        assert_archived(here, ids, sums)


def count_calls(here: Archiving) -> dict[str, int]:
    """Return how often reports have each call: in the ledger, unless it is in a file that is recorded."""
    with here.place.read() as ledger:
        recorded = [Path(one.file) for one in find_archives(ledger) if one.file_sha256]
        ids = [row[0] for row in ledger.execute(f"SELECT id FROM usage WHERE TRUE {in_no_file(ledger)}")]
    return dict(Counter(ids + [call["id"] for file in recorded for call in read_calls(file)]))


def assert_archived(here: Archiving, ids: set[str], sums: dict[str, Any]) -> None:
    assert read_sums(here.place) == sums
    found = [call["id"] for of in (here.place, *here.files) for call in read_calls(of)]
    assert sorted(found) == sorted(ids)
    assert len(here.files) == len(MONTHS)
    assert set(read_actions(here.place)) == {("ledger archive", "made")}


def test_a_late_call_completes_the_file_and_replaces_its_record(here: Archiving) -> None:
    here.run()
    before = hash_file(here.file("2024-01"))
    late = make_call(800_000, datetime(2024, 1, 31, 23, 59, tzinfo=UTC))
    here.settle(late)
    sums = read_sums(here.place)
    assert here.do("SELECT id FROM late_calls") == [(late["id"],)]
    assert [line[:7] for line in here.run()] == ["2024-01"]
    assert read_sums(here.place) == sums
    assert late["id"] in [call["id"] for call in read_calls(here.file("2024-01"))]
    assert here.do("SELECT id FROM late_calls") == []
    with here.place.read() as ledger:
        [archived] = [one for one in find_archives(ledger) if one.month == "2024-01"]
    assert archived.file_sha256 == hash_file(here.file("2024-01")) != before
    with SqlitePlace(here.file("2024-01")).read() as file:
        assert verify(file) == []


def test_calls_are_removed_only_if_the_file_has_each_of_them_word_for_word(here: Archiving) -> None:
    steps = here.steps()
    while not here.file("2023-12").exists():
        next(steps)
    here.do(
        "UPDATE usage SET finish_reason = 'length' WHERE id = (SELECT min(id) FROM usage WHERE created_at < '2024')"
    )
    with pytest.raises(ArchiveRefused, match="1 calls of 2023-12 differ from those in"):
        list(steps)
    assert len([call for call in read_calls(here.place) if call["created_at"] < "2024"]) == 17


def test_a_call_that_comes_between_comparison_and_removal_stays(here: Archiving) -> None:
    steps = here.steps()
    while not here.do("SELECT 1 FROM archives WHERE file_sha256 IS NOT NULL"):
        next(steps)
    next(steps)  # The rows are compared.
    here.settle(make_call(800_000, datetime(2023, 12, 24, tzinfo=UTC)))
    with pytest.raises(ArchiveRefused, match="calls of 2023-12 were written meanwhile; run it again"):
        list(steps)
    sums = read_sums(here.place)
    assert [line[:18] for line in here.run()] == ["2023-12: 18 calls,", "2024-01: 19 calls,"]
    assert read_sums(here.place) == sums


def test_a_month_waits_for_a_transaction_that_is_writing_into_it(here: Archiving) -> None:
    late = "INSERT INTO usage SELECT * FROM jsonb_populate_record(NULL::usage, %s)"
    with ThreadPoolExecutor(1) as thread, psycopg.connect(here.url) as writer:
        [[row]] = writer.execute(
            'SELECT to_jsonb(one) || \'{"id": "late", "retail_nanousd": 0}\' FROM usage AS one'
            " WHERE created_at < '2024' AND mode = 'byok' OR created_at < '2024' LIMIT 1"
        ).fetchall()
        writer.execute(late, (psycopg.types.json.Jsonb(row),))
        run = thread.submit(here.run)
        _wait_for_lock(here, "ShareRowExclusiveLock")
        writer.rollback()
        assert len(run.result(BOUND_S)) == 2


def _wait_for_lock(here: Archiving, mode: str) -> None:
    """Wait until someone waits for a lock."""
    while not here.do(f"SELECT 1 FROM pg_locks WHERE NOT granted AND mode = '{mode}'"):
        pass


def test_a_report_that_reads_for_long_delays_no_call(
    here: Archiving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archived_postgres, "_DROP_REST_S", 0.01)
    monkeypatch.setattr(archived_postgres, "_DROP_TRIES", 3)
    with psycopg.connect(here.url) as reader:
        reader.execute("SELECT count(*) FROM usage")
        with pytest.raises(
            ArchiveRefused, match="a report reads calls for too long to remove those of 2023-12"
        ):
            here.run()
        here.settle(make_call(800_000, datetime(2024, 2, 3, tzinfo=UTC)))
    assert read_sums(here.place)
    assert [line[:7] for line in here.run()] == list(MONTHS)


def test_a_month_with_a_call_in_flight_waits(here: Archiving) -> None:
    here.do(
        "INSERT INTO holds VALUES ('h', '2023-12-31T23:59:59.000+00:00', '', 'acme', 'ci', 0, 'dead', 1, '{}')"
    )
    with pytest.raises(ArchiveRefused, match="a call of 2023-12 has not ended"):
        here.run()
    assert here.files == []


def test_only_one_process_archives_a_ledger(here: Archiving) -> None:
    with here.ledger.alone(), pytest.raises(ArchiveBusy, match="another process archives"):
        here.run()
    assert len(here.run()) == 2


def test_a_record_that_another_process_made_is_not_replaced(here: Archiving) -> None:
    steps = here.steps()
    while not here.do("SELECT 1 FROM archives WHERE next_sha256 IS NOT NULL"):
        next(steps)
    here.do("UPDATE archives SET next_sha256 = 'of another file'")
    with pytest.raises(ArchiveRefused, match="another process has archived this month meanwhile"):
        list(steps)
    assert here.do("SELECT file_sha256 FROM archives") == [(None,)]


def test_without_a_ledger_there_is_nothing_to_archive(postgres_url: str, tmp_path: Path) -> None:
    with pytest.raises(ArchiveRefused, match="there is no ledger yet in"):
        Archiving(postgres_url, tmp_path).run()
