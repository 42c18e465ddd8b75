"""Calls are found by the ids of their clients without a look at other rows, at any point of a build."""

import sqlite3
from contextlib import closing
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig.ledger import make_row
from rig.rollups import NOW, ROWS, build_all, open_ledger, write
from sqlite_utils import Database, Migrations

from addon.store.money.reports.call_pages import CallPage, CallPosition
from addon.store.money.reports.calls_by_id import (
    count_wrong_ids,
    find_call,
    find_client_calls,
    find_unlisted_end,
    forget_client_ids,
)
from addon.store.money.sqlite.migration_steps import STEPS, m0015_client_requests
from addon.store.money.sqlite.migrations import migrate
from addon.store.money.sums.rollups import build_step
from addon.store.money.verify.verify import verify

CLIENT_IDS = st.sampled_from([None, "mine", "yours"])
CALLS = st.builds(lambda row, given_id: row | {"client_request_id": given_id}, ROWS, CLIENT_IDS)
CHANGES = st.lists(
    st.one_of(
        CALLS,
        st.integers(1, 5),
        st.tuples(st.sampled_from(["DELETE FROM usage", "UPDATE usage SET client_request_id = 'mine'"])),
        st.tuples(st.sampled_from(["UPDATE usage SET created_at = '2026-01-01T00:00:00.000+00:00'"])),
    ),
    max_size=8,
)


def open_before_ids(rows: list[dict[str, Any]]) -> sqlite3.Connection:
    """Return a ledger that had no table of ids, with rows that have ids of clients, migrated and not built."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(_ledger_before_ids())
    for row in rows:
        write(connection, row)
    migrate(connection)
    return connection


@cache
def _ledger_before_ids() -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        old = Migrations("tollgate")
        for step in STEPS:
            if step is not m0015_client_requests:
                old()(step)
        old.apply(Database(connection))
        return connection.serialize()


def ids_of(page: CallPage) -> list[str]:
    return [record["id"] for record in page.calls.records()]


def select_ids(connection: sqlite3.Connection, client_id: str) -> list[str]:
    sql = "SELECT id FROM usage WHERE client_request_id = ? ORDER BY created_at DESC, id DESC"
    return [row_id for (row_id,) in connection.execute(sql, (client_id,))]


@settings(deadline=None)
@given(st.lists(CALLS, max_size=8), CHANGES)
def test_the_table_agrees_with_the_rows_at_any_point_of_a_build(
    earlier: list[dict[str, Any]], changes: list[Any]
) -> None:
    connection = open_before_ids(earlier)
    for change in changes:
        if isinstance(change, dict):
            write(connection, change)
        elif isinstance(change, tuple):
            connection.execute(f"{change[0]} WHERE id = 'call-3'")
        else:
            build_step(connection, NOW, change)
        assert count_wrong_ids(connection) == 0
    build_all(connection)
    assert count_wrong_ids(connection) == 0
    for client_id in ("mine", "yours"):
        found = find_client_calls(connection, client_id, 20)
        assert (ids_of(found), found.is_whole) == (select_ids(connection, client_id), True)
    connection.close()


def test_a_find_says_that_older_calls_are_not_listed_yet() -> None:
    rows = [
        make_row(f"call-{n}", created_at=f"2026-01-31T12:0{n}:00.000+00:00", client_request_id="mine")
        for n in range(9)
    ]
    connection = open_before_ids(rows)
    page = find_client_calls(connection, "mine", 20)
    assert (ids_of(page), page.is_whole) == ([], False)
    while find_unlisted_end(connection):
        build_step(connection, NOW, 3)
    assert ids_of(find_client_calls(connection, "mine", 20)) == [row["id"] for row in reversed(rows)]
    connection.close()


def test_pages_of_one_clients_id_follow_each_other_also_within_a_millisecond() -> None:
    with open_ledger() as connection:
        for number in range(7):
            minute = number // 3
            moment = f"2026-01-31T12:0{minute}:00.000+00:00"
            write(connection, make_row(f"call-{number}", created_at=moment, client_request_id="mine"))
        shown, before = list[str](), None
        for _ in range(4):
            page = find_client_calls(connection, "mine", 2, before=before)
            shown += ids_of(page)
            before = page.older
        assert (shown, before) == ([f"call-{n}" for n in (6, 5, 4, 3, 2, 1, 0)], None)
        newer = find_client_calls(
            connection, "mine", 2, after=CallPosition("2026-01-31T12:00:00.000+00:00", "call-1")
        )
        assert ids_of(newer) == ["call-3", "call-2"]


@pytest.mark.parametrize("wanted", ["call-3", "mine-3", "unknown"])
def test_a_find_reads_no_other_rows_however_many_there_are(wanted: str) -> None:
    def count_steps(rows: int) -> int:
        """Return how many instructions of SQLite a find takes."""
        with open_ledger() as connection:
            for number in range(rows):
                write(connection, make_row(f"call-{number}", client_request_id=f"mine-{number}"))
            steps = 0

            def note_step() -> int:
                nonlocal steps
                steps += 1
                return 0

            connection.set_progress_handler(note_step, 1)
            if find_call(connection, wanted) is None:
                find_client_calls(connection, wanted, 50)
            connection.set_progress_handler(None, 1)
            return steps

    assert count_steps(120) <= count_steps(20)


def test_a_table_that_was_changed_by_hand_is_reported_and_listed_again() -> None:
    with open_ledger() as connection:
        for number in range(4):
            write(connection, make_row(f"call-{number}", client_request_id="mine"))
        build_all(connection)
        connection.execute("DELETE FROM client_requests WHERE id = 'call-1'")
        connection.execute("UPDATE client_requests SET id = 'gone' WHERE id = 'call-2'")
        assert "client_requests: 3 calls are missing or wrong" in verify(connection)
        forget_client_ids(connection)
        build_all(connection)
        assert count_wrong_ids(connection) == 0
        assert len(ids_of(find_client_calls(connection, "mine", 9))) == 4
