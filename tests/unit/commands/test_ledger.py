"""``tollgate ledger`` verifies a sound ledger, and finds and repairs the errors of others."""

import csv
import io
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr
from rig.bounds import BOUND_S
from rig.ledger import locked_by_another, second_connection
from rig.ledger_commands import conf_in, live, path_of, run, use

from addon.store.money.archives.archived_sqlite import SqliteArchivedLedger
from addon.store.money.postgres.ledger import PostgresPlace
from addon.store.money.postgres.sum_schema import MERGING_LOCK


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return conf_in(tmp_path / "one")


@pytest.fixture
def lived(conf: Path) -> Path:
    use(conf, live)
    return conf


def test_a_sound_ledger_gives_the_counts_of_what_was_checked(lived: Path) -> None:
    result = run(lived, "verify")
    assert (result.exit_code, result.stdout) == (
        0,
        "2 calls of earlier versions have no kept prices: their costs were left out\n"
        "2 calls, 2 wallet entries, 1 wallets, 6 counters, 1 holds, 0 price sets, 0 refusals, 0 audit lines:"
        " no discrepancies\n",
    )
    as_json = run(lived, "verify", "--json")
    assert json.loads(as_json.stdout) == {
        "checked": {
            "calls": 2,
            "wallet_entries": 2,
            "wallets": 1,
            "counters": 6,
            "holds": 1,
            "price_sets": 0,
            "refusals": 0,
            "audit_lines": 0,
        },
        "prices_not_kept": 2,
        "discrepancies": [],
        **{"audit_head": "0" * 64, "audit_line": 0, "wanted_line": None},
    }


def test_a_ledger_is_verified_while_another_process_writes(lived: Path) -> None:
    with locked_by_another(path_of(lived)):
        assert run(lived, "verify").exit_code == 0


WRONG = {
    "a counter's money": (
        "UPDATE spend SET spent_nanousd = spent_nanousd + 1 WHERE scope = 'key:acme/ci' AND period = '2026-01'",
        "counter key:acme/ci of 2026-01: 3121 nano-USD are counted, 3120 are recorded",
    ),
    "a counter's calls": (
        "UPDATE spend SET requests = 3 WHERE scope = 'workspace:acme'",
        "counter workspace:acme of 2026-01: 3 calls are counted, 2 are recorded",
    ),
    "a wallet": (
        "UPDATE spend SET spent_nanousd = 0 WHERE scope = 'wallet:acme'",
        "counter wallet:acme of ever: 0 nano-USD are counted, -4999998440 are recorded",
    ),
    "a charge without a call": (
        "UPDATE wallet_entries SET id = 'call-9' WHERE id = 'call-1'",
        "charge call-9: the wallet of acme paid 1560 nano-USD, no such call is recorded",
    ),
    "the sums of an hour": (
        "UPDATE rollups SET retail_nanousd = 0",
        "rollups of 2026-01-31T12: the sums differ from the calls",
    ),
    "a hold of an ended call": (
        "UPDATE holds SET id = 'call-1'",
        "hold call-1: the call is recorded, but money is still held for it",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_each_discrepancy_gives_a_line_and_status_1(lived: Path, wrong: str) -> None:
    sql, line = WRONG[wrong]
    with second_connection(path_of(lived)) as connection:
        connection.execute(sql)
    result = run(lived, "verify")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == line
    assert result.stdout.endswith(": 1 discrepancies\n")
    assert json.loads(run(lived, "verify", "--json").stdout)["discrepancies"] == [line]
    as_csv = csv.reader(io.StringIO(run(lived, "verify", "--csv").stdout))
    assert list(as_csv) == [["discrepancy"], [line]]


def test_a_deleted_row_is_a_discrepancy_of_every_counter(lived: Path) -> None:
    with second_connection(path_of(lived)) as connection:
        connection.execute("DELETE FROM usage WHERE id = 'call-1'")
    lines = run(lived, "verify").stdout.splitlines()
    assert len([line for line in lines if line.startswith("counter key:acme/ci of ")]) == 8
    assert any(line.startswith("charge call-1: ") for line in lines)


def test_a_recount_repairs_the_sums_of_hours_and_no_other_discrepancy(lived: Path) -> None:
    assert run(lived, "recount").stdout == "0 hours and days were counted again\n"
    with second_connection(path_of(lived)) as connection:
        connection.execute("UPDATE rollups SET calls = 7")
        connection.execute("UPDATE spend SET requests = 3 WHERE scope = 'workspace:acme'")
    assert run(lived, "recount").stdout == "1 hours and days were counted again\n"
    [line, *_] = run(lived, "verify").stdout.splitlines()
    assert line == "counter workspace:acme of 2026-01: 3 calls are counted, 2 are recorded"


def test_a_recount_says_the_same_in_postgresql(lived: Path, postgres_url: str) -> None:
    assert run(lived, "copy", "--to", postgres_url).exit_code == 0
    lived.write_text(f'{lived.read_text()}[state]\nbackend = "redis"\n[ledger]\nurl = "{postgres_url}"\n')
    assert run(lived, "recount").stdout == "0 hours and days were counted again\n"
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE rollups_merged SET calls = 7")
    assert run(lived, "recount").stdout == "1 hours and days were counted again\n"
    assert run(lived, "verify").exit_code == 0
    with psycopg.connect(postgres_url) as connection:
        [change] = connection.execute("SELECT change FROM audit").fetchall()
    assert change == ("Count 1 hours and days again",)


def test_a_recount_in_postgresql_keeps_no_other_change_waiting(lived: Path, postgres_url: str) -> None:
    assert run(lived, "copy", "--to", postgres_url).exit_code == 0
    lived.write_text(f'{lived.read_text()}[state]\nbackend = "redis"\n[ledger]\nurl = "{postgres_url}"\n')
    with ThreadPoolExecutor(1) as threads, psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE rollups_merged SET calls = 7")
        connection.commit()
        connection.execute(f"SELECT pg_advisory_xact_lock({MERGING_LOCK})")
        recounting = threads.submit(run, lived, "recount")
        with psycopg.connect(postgres_url, autocommit=True) as watching:
            while watching.execute(_WAITING).fetchone() == (0,):
                time.sleep(0.01)
        with PostgresPlace(SecretStr(postgres_url)).write(timeout_s=BOUND_S) as ledger:
            ledger.execute("SELECT 1")
        assert not recounting.done()
        connection.rollback()
        assert recounting.result().stdout == "1 hours and days were counted again\n"


_WAITING = """
    SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
    WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()
"""


def test_a_recount_does_not_run_beside_an_archive(lived: Path) -> None:
    with SqliteArchivedLedger(path_of(lived)).alone():
        refused = run(lived, "recount")
    assert refused.exit_code == 1
    assert f"another process archives {path_of(lived)} right now" in refused.output


def test_a_missing_ledger_is_not_made_for_a_recount(conf: Path) -> None:
    assert (
        run(conf, "recount").stdout == f"There is no ledger yet in {path_of(conf)}: nothing was recorded.\n"
    )
    assert not path_of(conf).exists()


def test_a_missing_ledger_is_sound(conf: Path) -> None:
    result = run(conf, "verify")
    assert (result.exit_code, result.stdout) == (
        0,
        f"There is no ledger yet in {path_of(conf)}: nothing was recorded.\n",
    )
    assert json.loads(run(conf, "verify", "--json").stdout)["discrepancies"] == []
    assert not path_of(conf).exists()


def test_an_error_names_a_damaged_file(lived: Path) -> None:
    path_of(lived).write_bytes(b"not a database" * 1000)
    result = run(lived, "verify")
    assert result.exit_code == 1
    assert f"{path_of(lived)}: can't be read: file is not a database" in result.stderr
