"""Figures of pages: the same as of the rows, for any time and filter, at any point of a build."""

import sqlite3
from bisect import bisect_left
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from rig.ledger import make_row
from rig.rollups import NOW, ROWS, build_all, open_ledger, write

from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.figures import (
    STEPS_S,
    Figures,
    KeyUse,
    Step,
    merge_groups,
    read_figures,
    read_key_uses,
)
from addon.store.money.reports.sum_sources import SUMS
from addon.store.money.sums.rollup_schema import BUCKET_BOUNDS_MS
from policies.utc_time import format_utc

NAMES = st.lists(
    st.sampled_from(["workspace", "key_id", "model_slug", "provider", "mode", "status_class"]),
    unique=True,
    max_size=3,
)
AGO = st.one_of(st.none(), st.integers(0, 4 * 24 * 60))
FILTERS = st.builds(
    lambda workspace, model, since, until, key, provider: Filter(
        workspace, model, _moment(since), _moment(until), key, provider
    ),
    st.sampled_from([None, "acme"]),
    st.sampled_from([None, "large"]),
    AGO,
    AGO,
    st.sampled_from([None, "ci"]),
    st.sampled_from([None, "TESTER", "GONE"]),
)
STEPS = st.sampled_from([None, *STEPS_S])


def _moment(minutes_ago: int | None) -> str | None:
    return None if minutes_ago is None else format_utc(NOW - timedelta(minutes=minutes_ago))


def sum_rows(
    connection: sqlite3.Connection, names: list[str], wanted: Filter, step: Step | None
) -> dict[tuple[str, ...], Figures]:
    """Return the figures of all rows, one by one."""
    where, values = wanted.rows()
    cursor = connection.execute(f"SELECT * FROM usage WHERE {where}", values)
    columns = [column[0] for column in cursor.description]
    groups: dict[tuple[str, ...], Figures] = {}
    for values_of_row in cursor:
        row = dict(zip(columns, values_of_row, strict=True))
        row |= {"status_class": f"{row['status'] // 100}xx", "calls": 1, "failed_calls": row["status"] >= 400}
        name = tuple(row[name] for name in names)
        group = (_begin(row, step), *name) if step else name
        figures = groups.setdefault(group, Figures(buckets=(Counter(), Counter())))
        figures.sums = [total + (row[one] or 0) for total, one in zip(figures.sums, SUMS, strict=True)]
        for counts, one in zip(figures.buckets, ("first_byte_ms", "duration_ms"), strict=True):
            if row[one] is not None:
                counts[bisect_left(BUCKET_BOUNDS_MS, row[one])] += 1
    return groups


def _begin(row: dict[str, Any], step: Step) -> str:
    """Return the beginning of a row's step, as short as the table by hour or day has it."""
    moment = datetime.fromisoformat(row["created_at"])
    since_midnight_s = moment.hour * 3600 + moment.minute * 60
    begin = datetime.combine(moment, datetime.min.time(), UTC) + timedelta(
        seconds=since_midnight_s // STEPS_S[step] * STEPS_S[step]
    )
    return begin.isoformat()[: {"5min": 16, "day": 10}.get(step, 13)]


@settings(deadline=None, max_examples=50)
@given(
    st.lists(ROWS, max_size=12),
    st.lists(ROWS, max_size=6),
    st.integers(0, 6),
    NAMES,
    FILTERS,
    STEPS,
    st.booleans(),
)
def test_figures_do_not_depend_on_how_much_is_built(
    earlier: list[dict[str, Any]],
    later: list[dict[str, Any]],
    steps: int,
    names: list[str],
    wanted: Filter,
    step: Step | None,
    has_distributions: bool,
) -> None:
    with open_ledger(earlier, steps) as connection:
        for row in later:
            write(connection, row)
        for _ in range(2):
            found = read_figures(connection, names, wanted, step, has_distributions=has_distributions)
            expected = sum_rows(connection, names, wanted, step)
            assert {name: one.sums for name, one in found.items()} == {
                name: one.sums for name, one in expected.items()
            }
            if has_distributions:
                assert {name: one.buckets for name, one in found.items()} == {
                    name: one.buckets for name, one in expected.items()
                }
            build_all(connection)


@given(st.lists(ROWS, max_size=8))
def test_groups_that_are_folded_are_those_of_fewer_names(rows: list[dict[str, Any]]) -> None:
    with open_ledger(rows) as connection:
        build_all(connection)
        names = ("model_slug", "provider", "mode")
        groups = read_figures(connection, names, Filter(), has_distributions=True)
        assert merge_groups(groups, 2, 1) == read_figures(
            connection, ("mode", "provider"), Filter(), has_distributions=True
        )
        whole = merge_groups(groups)
        assert whole == read_figures(connection, (), Filter(), has_distributions=True)
        assert sum(one.calls for one in whole.values()) == len({row["id"] for row in rows})
        assert sum((one.buckets[1] for one in whole.values()), Counter()).total() == len(
            {row["id"] for row in rows}
        )


def test_the_use_of_each_key_has_its_first_hour_its_calls_and_its_cost() -> None:
    keys = {
        "call-0": ("ci", 30, 5),
        "call-1": ("bot", 3, 7),
        "call-2": ("ci", 2, 11),
        "call-3": ("ci", 0, 13),
    }
    *earlier, latest = [
        make_row(row_id, key_id=key, created_at=_moment(60 * hours_ago), retail_nanousd=retail_nanousd)
        for row_id, (key, hours_ago, retail_nanousd) in keys.items()
    ]
    with open_ledger(earlier) as connection:
        build_all(connection)
        write(connection, latest)
        assert read_key_uses(connection, _moment(24 * 60) or "") == {
            ("acme", "ci"): KeyUse("2026-01-31T12", 2, 24),
            ("acme", "bot"): KeyUse("2026-01-31T11", 1, 7),
        }
