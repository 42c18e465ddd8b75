"""Totals and recent calls: the same from rollups as from rows, for any time, at any point of a build."""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from rig.ledger import make_row
from rig.rollups import ROWS, build_all, open_ledger, write

from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.report import find_recent, find_totals
from addon.store.money.reports.totals import GROUPS, TIMES, columns_of

MOMENTS = st.one_of(
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
    MOMENTS,
    MOMENTS,
    st.sampled_from([None, "ci", "gone"]),
    st.sampled_from([None, "TESTER", "GONE"]),
    st.sampled_from([None, None, "200", "429", "404", "2xx", "4xx", "5xx", "error"]),
    st.sampled_from([None, None, "byok", "payg"]),
    st.sampled_from([None, None, None, "gone"]),
    st.sampled_from([None, None, "interrupted"]),
)
PAIRS = [f"{first},{second}" for first in GROUPS for second in GROUPS if first != second]
BYS = [*GROUPS, *PAIRS]
_SUMS = """
    count(*) AS calls, sum(status >= 400) AS failed_calls, coalesce(sum(prompt_tokens), 0) AS prompt_tokens,
    coalesce(sum(cached_tokens), 0) AS cached_tokens, coalesce(sum(completion_tokens), 0) AS completion_tokens,
    sum(wholesale_nanousd) AS wholesale_nanousd, sum(retail_nanousd) AS retail_nanousd
"""
"""The sums as they were read from the rows before there were rollups."""


def sum_rows(connection: sqlite3.Connection, by: str, wanted: Filter, limit: int | None) -> list[Any]:
    where, values = wanted.rows()
    listed = ", ".join(columns_of(by))
    names = [_EXPRESSIONS.get(name, name) for name in columns_of(by)]
    sql = f"SELECT {', '.join(names)}, {_SUMS} FROM usage WHERE {where} GROUP BY {listed} ORDER BY {listed}"
    groups = connection.execute(sql, values).fetchall()
    return sort_groups(groups, by)[: limit or None]


_EXPRESSIONS = {
    "deployment": "coalesce(deployment, '') AS deployment",
    "api": "coalesce(api, '') AS api",
    "end_user": "coalesce(end_user, '') AS end_user",
    "day": "substr(created_at, 1, 10) AS day",
    "hour": "substr(created_at, 1, 13) AS hour",
    "status_class": "substr(status, 1, 1) || 'xx' AS status_class",
}


def sort_groups(groups: list[Any], by: str) -> list[Any]:
    """Sort groups, which are sorted by their names, as reports do: times newest first, others by cost and calls."""
    columns, parts = columns_of(by), by.split(",")
    for number, one in reversed(list(enumerate(parts))):
        places = [columns.index(name) for name in GROUPS[one]]
        if one in TIMES:
            groups = sorted(groups, key=itemgetter(*places), reverse=True)
            continue
        # Groups of the first part are sorted by the sums of all that is in them.
        summed = places if number == 0 else list(range(len(columns)))
        costs, calls = Counter[Any](), Counter[Any]()
        for group in groups:
            name = tuple(group[place] for place in summed)
            costs[name] += group[-1]
            calls[name] += group[len(columns)]
        names = [tuple(group[place] for place in summed) for group in groups]
        keys = [
            (-costs[name], -calls[name], tuple(group[place] for place in places))
            for name, group in zip(names, groups, strict=True)
        ]
        order = sorted(range(len(groups)), key=keys.__getitem__)
        groups = [groups[place] for place in order]
    return groups


def read_newest(connection: sqlite3.Connection, wanted: Filter, limit: int) -> list[Any]:
    where, values = wanted.rows()
    sql = f"SELECT * FROM usage WHERE {where} ORDER BY created_at DESC, id DESC LIMIT ?"
    return connection.execute(sql, (*values, limit)).fetchall()


def assert_same(
    connection: sqlite3.Connection, wanted: Filter, limit: int, bys: Iterable[str] = GROUPS
) -> None:
    for by in bys:
        for most in (None, limit):
            table = find_totals(connection, by, wanted, most)
            assert list(table.rows) == sum_rows(connection, by, wanted, most), by
            assert list(table.columns[: len(columns_of(by))]) == columns_of(by)
    assert find_recent(connection, wanted, limit).rows == read_newest(connection, wanted, limit)


@settings(deadline=None)
@given(
    st.lists(ROWS, max_size=16),
    st.lists(ROWS, max_size=8),
    st.integers(0, 6),
    FILTERS,
    st.integers(1, 5),
    st.lists(st.sampled_from(BYS), min_size=1, max_size=3),
)
@example(
    [], [], 0, Filter(since="2026-01-31T00:00:00.000+00:00", until="2026-01-30T00:00:00.000+00:00"), 1, BYS
)
def test_totals_and_recent_calls_do_not_depend_on_how_much_is_built(
    earlier: list[dict[str, Any]],
    later: list[dict[str, Any]],
    steps: int,
    wanted: Filter,
    limit: int,
    bys: list[str],
) -> None:
    with open_ledger(earlier, steps) as connection:
        for row in later:
            write(connection, row)
        assert_same(connection, wanted, limit, bys)
        build_all(connection)
        assert_same(connection, wanted, limit, bys)


def test_a_ledger_that_no_newer_gateway_has_opened_is_reported_from_its_rows() -> None:
    with open_ledger() as connection:
        write(connection, make_row())
        for name in ("rollups", "days", "rollup_progress"):
            connection.execute(f"DROP TABLE {name}")
        assert_same(connection, Filter(model="tester-large"), 5)


@given(st.lists(ROWS, max_size=16), st.integers(0, 6), FILTERS, st.sampled_from(PAIRS))
def test_the_sums_of_a_pair_add_up_to_those_of_its_first_part(
    rows: list[dict[str, Any]], steps: int, wanted: Filter, pair: str
) -> None:
    first = pair.split(",")[0]
    with open_ledger(rows, steps) as connection:
        added: dict[tuple[Any, ...], Counter[str]] = {}
        for record in find_totals(connection, pair, wanted, None).records():
            name = tuple(record[column] for column in GROUPS[first])
            sums = added.setdefault(name, Counter())
            for column in ("calls", "failed_calls", "prompt_tokens", "wholesale_nanousd", "retail_nanousd"):
                sums[column] += record[column]
        whole = find_totals(connection, first, wanted, None).records()
        assert list(added) == [tuple(record[column] for column in GROUPS[first]) for record in whole]
        for record, sums in zip(whole, added.values(), strict=True):
            assert {column: record[column] for column in sums} == dict(sums)
