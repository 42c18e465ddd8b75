"""One process of all with a ledger does a work, in either engine, and new rows are found, none twice or never."""

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Timer

import psycopg
import pytest
from pydantic import SecretStr
from rig.bounds import BOUND_S
from rig.ledger import make_row
from rig.server_process import free_port

from addon.store.money.alerts import last_row, read_new_rows
from addon.store.money.ledger import Ledger, LedgerPlace, SlowError
from addon.store.money.postgres.ledger import PostgresPlace
from addon.store.protocol import StoreUnavailable

AT = "2026-11-22T12:00:00.000+00:00"


def insert(ledger: Ledger, *ids: str) -> None:
    for call_id in ids:
        row = make_row(call_id, created_at=AT, key_id=call_id)
        sql = f"INSERT INTO usage ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
        ledger.execute(sql, list(row.values()))


def find_new(place: LedgerPlace, after: int) -> tuple[int, set[str]]:
    with place.read() as ledger:
        found = read_new_rows(ledger, place.newest_row, after)
    return found.last, {key_id for _, key_id in found.callers}


def test_new_rows_are_found_once(place: LedgerPlace) -> None:
    with place.write() as ledger:
        insert(ledger, "a", "b")
    with place.read() as ledger:
        last = last_row(ledger, place.newest_row)
    assert find_new(place, last) == (last, set())
    with place.write() as ledger:
        insert(ledger, "c")
    last, keys = find_new(place, last)
    assert keys == {"c"}
    assert find_new(place, last)[1] == set()


@contextmanager
def in_flight(url: str, call_id: str) -> Iterator[psycopg.Connection]:
    """Write a row in a transaction that stays open."""
    with psycopg.connect(url) as connection:
        row = make_row(call_id, created_at=AT, key_id=call_id)
        marks = ", ".join(["%s"] * len(row))
        connection.execute(f"INSERT INTO usage ({', '.join(row)}) VALUES ({marks})", list(row.values()))
        yield connection


def test_a_row_that_is_committed_late_is_not_missed(postgres_ledger_url: str) -> None:
    place = PostgresPlace(SecretStr(postgres_ledger_url))
    with place.read() as ledger:
        last = last_row(ledger, place.newest_row)
    with ExitStack() as opened:
        early = opened.enter_context(in_flight(postgres_ledger_url, "early"))
        with place.write() as ledger:
            insert(ledger, "late")
        last, first = find_new(place, last)
        early.commit()
    last, second = find_new(place, last)
    assert (first, second) == (set(), {"early", "late"})
    assert find_new(place, last)[1] == set()


@pytest.fixture
def places(place: LedgerPlace) -> tuple[LedgerPlace, LedgerPlace]:
    return place.kept_open(), place.kept_open()


def test_one_leads_until_it_ends(places: tuple[LedgerPlace, LedgerPlace], tmp_path: Path) -> None:
    (tmp_path / "ledger.db-owners").mkdir()
    one, other = (place.lead("alerts") for place in places)
    assert (one.is_held(), one.take(), one.take(), other.take()) == (False, True, True, False)
    assert places[0].lead("sums").take()
    one.end()
    assert (one.is_held(), other.take(), other.is_held(), one.take()) == (False, True, True, False)
    other.end()
    for place in places:
        place.close()


def test_a_lease_that_is_not_renewed_ends(postgres_ledger_url: str) -> None:
    place = PostgresPlace(SecretStr(postgres_ledger_url))
    dead, other = place.lead("alerts"), place.lead("alerts")
    assert dead.take()
    with psycopg.connect(postgres_ledger_url) as ledger:
        ledger.execute("UPDATE leaders SET ends_at = clock_timestamp()")
    assert (other.take(), dead.take()) == (True, False)


ENDLESS = """
    WITH RECURSIVE endless (number) AS (SELECT 1 UNION ALL SELECT number % 2 + 1 FROM endless)
    SELECT count(*) FROM endless
"""

SHORT = ENDLESS.replace("number % 2 + 1 FROM endless", "number + 1 FROM endless WHERE number < 999")


@pytest.mark.parametrize("is_left", [True, False], ids=["left", "slow"])
def test_a_read_ends_in_time_and_when_nobody_waits(place: LedgerPlace, is_left: bool) -> None:
    left = Event()
    leaving = Timer(0.05, left.set)
    if is_left:
        leaving.start()
    with pytest.raises(SlowError), place.read_in_time(BOUND_S if is_left else 0.2, left) as ledger:
        ledger.execute(ENDLESS).fetchall()
    leaving.cancel()
    with place.read_in_time(BOUND_S, Event()) as ledger:
        assert ledger.execute("SELECT count(*) FROM usage").fetchone() == (0,)


def test_a_bounded_place_ends_what_takes_too_long(postgres_ledger_url: str) -> None:
    place = PostgresPlace(SecretStr(postgres_ledger_url)).bounded(0.2)
    for opened in (place.read(), place.write()):
        with pytest.raises(StoreUnavailable, match="does not answer in time"), opened as ledger:
            ledger.execute(ENDLESS).fetchall()


def test_many_short_statements_end_in_time(place: LedgerPlace) -> None:
    with pytest.raises(SlowError), place.read_in_time(0.2, Event()) as ledger:
        deque(iter(lambda: ledger.execute(SHORT).fetchone(), None), maxlen=0)


def test_a_server_that_is_away_is_named_without_its_password() -> None:
    unused_port = free_port()
    place = PostgresPlace(SecretStr(f"postgresql://someone:canary@127.0.0.1:{unused_port}/tollgate"))
    with (
        pytest.raises(StoreUnavailable, match=f"127.0.0.1:{unused_port}/tollgate: ") as found,
        place.read_in_time(BOUND_S, Event()),
    ):
        pass
    assert "canary" not in str(found.value)
