"""Totals and recent calls: the same from rollups as from rows, for any time, at any point of a build."""

import sqlite3
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from rig.ledger import make_row
from rig.rollups import NOW, ROWS, build_all, open_ledger, write

from addon.store.ledger.report import find_recent, find_totals
from addon.store.ledger.rollups import build_step
from addon.store.ledger.totals import GROUPS, Filter

TIMES = st.one_of(
    st.none(),
    st.sampled_from(["0001-01-01T00:00:00.000+00:00", "9999-12-31T23:59:59.999+00:00"]),
    st.builds(
        lambda day, hour, minute: f"2026-01-{day}T{hour:02}:{minute:02}:00.000+00:00",
        st.integers(27, 31),
        st.sampled_from([0, 9, 13, 14, 23]),
        st.sampled_from([0, 20, 59]),
    ),
)
FILTERS = st.builds(
    Filter,
    st.sampled_from([None, "acme", "gone"]),
    st.sampled_from([None, "large", "tester-large"]),
    TIMES,
    TIMES,
)
_SUMS = """
    count(*) AS calls, sum(status >= 400) AS failed_calls, coalesce(sum(prompt_tokens), 0) AS prompt_tokens,
    coalesce(sum(cached_tokens), 0) AS cached_tokens, coalesce(sum(completion_tokens), 0) AS completion_tokens,
    sum(wholesale_nanousd) AS wholesale_nanousd, sum(retail_nanousd) AS retail_nanousd
"""
"""The sums as they were read from the rows before there were rollups."""


def sum_rows(connection: sqlite3.Connection, by: str, wanted: Filter, limit: int | None) -> list[Any]:
    where, values = wanted.rows()
    names = [f"substr(created_at, 1, 10) AS {name}" if name == "day" else name for name in GROUPS[by]]
    order = "day DESC" if by == "day" else f"retail_nanousd DESC, calls DESC, {', '.join(GROUPS[by])}"
    sql = f"SELECT {', '.join(names)}, {_SUMS} FROM usage WHERE {where} GROUP BY {', '.join(GROUPS[by])}"
    return connection.execute(f"{sql} ORDER BY {order} LIMIT ?", (*values, limit or -1)).fetchall()


def read_newest(connection: sqlite3.Connection, wanted: Filter, limit: int) -> list[Any]:
    where, values = wanted.rows()
    sql = f"SELECT * FROM usage WHERE {where} ORDER BY created_at DESC, rowid DESC LIMIT ?"
    return connection.execute(sql, (*values, limit)).fetchall()


def assert_same(connection: sqlite3.Connection, wanted: Filter, limit: int) -> None:
    for by in GROUPS:
        for most in (None, limit):
            table = find_totals(connection, by, wanted, most)
            assert list(table.rows) == sum_rows(connection, by, wanted, most)
            assert list(table.columns[: len(GROUPS[by])]) == list(GROUPS[by])
    assert find_recent(connection, wanted, limit).rows == read_newest(connection, wanted, limit)


@settings(deadline=None)
@given(st.lists(ROWS, max_size=16), st.lists(ROWS, max_size=8), st.integers(0, 6), FILTERS, st.integers(1, 5))
@example([], [], 0, Filter(since="2026-01-31T00:00:00.000+00:00", until="2026-01-30T00:00:00.000+00:00"), 1)
def test_totals_and_recent_calls_do_not_depend_on_how_much_is_built(
    earlier: list[dict[str, Any]], later: list[dict[str, Any]], steps: int, wanted: Filter, limit: int
) -> None:
    with open_ledger(earlier) as connection:
        for _ in range(steps):
            build_step(connection, NOW, 3)
        for row in later:
            write(connection, row)
        assert_same(connection, wanted, limit)
        build_all(connection)
        assert_same(connection, wanted, limit)


def test_a_ledger_that_no_newer_gateway_has_opened_is_reported_from_its_rows() -> None:
    with open_ledger() as connection:
        write(connection, make_row())
        for name in ("rollups", "model_days", "key_days", "rollup_progress"):
            connection.execute(f"DROP TABLE {name}")
        assert_same(connection, Filter(model="tester-large"), 5)
