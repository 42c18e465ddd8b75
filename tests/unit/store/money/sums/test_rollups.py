"""Rollups: they are the sums of the rows after any change of rows, at any point of a build, and after a repair."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig.ledger import make_row
from rig.rollups import NOW, ROWS, build_all, open_ledger, write
from sqlite_utils import Database, Migrations

from addon.store.money.sqlite.early_migration_steps import LARGEST, m0007_rollups
from addon.store.money.sqlite.migration_steps import STEPS
from addon.store.money.sqlite.migrations import migrate
from addon.store.money.sums.rollup_check import find_wrong, repair
from addon.store.money.sums.rollup_schema import BUCKET_BOUNDS_MS, BUCKETS, ENDED_TABLES, TABLES
from addon.store.money.sums.rollups import Progress, build_step, read_progress

CHANGES = st.lists(
    st.one_of(
        ROWS,
        st.tuples(st.just("DELETE FROM usage WHERE id = ?"), st.integers(0, 15)),
        st.tuples(
            st.just("UPDATE usage SET duration_ms = 77, status = 500 WHERE id = ?"), st.integers(0, 15)
        ),
        st.integers(1, 4),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(st.lists(ROWS, max_size=12), CHANGES)
def test_rollups_are_the_sums_of_the_rows_at_any_point_of_a_build(
    earlier: list[dict[str, Any]], changes: list[Any]
) -> None:
    with open_ledger(earlier) as connection:
        for change in changes:
            if isinstance(change, dict):
                write(connection, change)
            elif isinstance(change, tuple):
                connection.execute(change[0], (f"call-{change[1]}",))
            else:
                build_step(connection, NOW, change)
            assert list(find_wrong(connection)) == []
        build_all(connection)
        assert list(find_wrong(connection)) == []
        assert read_progress(connection).hours_from == ""
        (rows,) = connection.execute("SELECT count(*) FROM usage").fetchone()
        assert connection.execute("SELECT coalesce(sum(calls), 0) FROM rollups").fetchone() == (rows,)


def test_a_row_is_in_the_group_of_its_hour_with_all_its_sums() -> None:
    with open_ledger() as connection:
        write(connection, make_row("a", cached_tokens=4, duration_ms=4, first_byte_ms=None))
        write(
            connection,
            make_row("b", status=201, fallback=1, stream=1, usage_source="estimated", duration_ms=5),
        )
        connection.row_factory = sqlite3.Row
        [group] = connection.execute("SELECT * FROM rollups")
    assert dict(group) == {
        "hour": "2026-01-31T12",
        "workspace": "acme",
        "key_id": "ci",
        "model_slug": "tester-large",
        "provider": "TESTER",
        "mode": "payg",
        "status_class": "2xx",
        "calls": 2,
        "fallback_calls": 1,
        "streamed_calls": 1,
        "estimated_calls": 1,
        "uncounted_calls": 0,
        "attempts": 2,
        "prompt_tokens": 20,
        "completion_tokens": 10,
        "total_tokens": 30,
        "cached_tokens": 4,
        "cache_write_tokens": 0,
        "reasoning_tokens": 0,
        "wholesale_nanousd": 3000,
        "retail_nanousd": 3120,
        "first_byte_ms": 10,
        "duration_ms": 9,
        "first_byte_buckets": '{"3":1}',
        "duration_buckets": '{"0":1,"1":1}',
    }


BOUNDS = [
    (0, 0),
    *((bound, step) for step, bound in enumerate(BUCKET_BOUNDS_MS)),
    *((bound + 1, step + 1) for step, bound in enumerate(BUCKET_BOUNDS_MS)),
    (LARGEST, BUCKETS - 1),
]


def test_a_duration_is_in_the_bucket_of_the_first_bound_that_is_not_smaller() -> None:
    with open_ledger() as connection:
        for number, (duration_ms, _) in enumerate(BOUNDS):
            write(connection, make_row(f"call-{number}", key_id=f"{number:03}", duration_ms=duration_ms))
        found = connection.execute("SELECT duration_buckets FROM rollups ORDER BY key_id").fetchall()
    assert found == [(f'{{"{bucket}":1}}',) for _, bucket in BOUNDS]


def test_sums_beyond_64_bits_keep_no_call_out_of_the_ledger() -> None:
    with open_ledger() as connection:
        for number in range(930):
            write(connection, make_row(f"call-{number}", total_tokens=LARGEST))
        found = connection.execute("SELECT calls, total_tokens FROM rollups").fetchone()
    assert found == (930, pytest.approx(930.0 * LARGEST))


# The build.


def make_rows(count: int, minutes: int = 9) -> list[dict[str, Any]]:
    """Return rows with the same time between them, the last one of NOW."""
    moments = [NOW - timedelta(minutes=minutes * number) for number in range(count)]
    return [
        make_row(f"call-{number}", created_at=moment.isoformat(timespec="milliseconds"))
        for number, moment in enumerate(moments)
    ]


def test_an_upgrade_leaves_the_old_rows_to_the_build() -> None:
    rows = make_rows(20)
    with open_ledger(rows) as expected, closing(sqlite3.connect(":memory:", isolation_level=None)) as old:
        steps = Migrations("tollgate")
        for step in STEPS[: STEPS.index(m0007_rollups)]:
            steps()(step)
        steps.apply(Database(old))
        columns = [name for _, name, *_ in old.execute("PRAGMA table_info(usage)")]
        marks = ", ".join(f":{name}" for name in columns)
        old.executemany(f"INSERT INTO usage ({', '.join(columns)}) VALUES ({marks})", rows)
        migrate(old)
        tables = old.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        for table in {name for (name,) in tables} - {"_sqlite_migrations", "ledger"}:
            sql = f"SELECT * FROM {table}"
            assert old.execute(sql).fetchall() == expected.execute(sql).fetchall(), table


ENDED = [table.name for table in ENDED_TABLES]


def count_calls(connection: sqlite3.Connection) -> dict[str, int]:
    sums = {table.name: f"SELECT coalesce(sum(calls), 0) FROM {table.name}" for table in TABLES}
    return {name: connection.execute(sql).fetchone()[0] for name, sql in sums.items()}


def test_the_newest_rows_are_built_first_and_rows_of_hours_that_end_before_the_oldest() -> None:
    with open_ledger(make_rows(100)) as connection:
        for _ in range(40):
            build_step(connection, NOW, 3)
        progress = read_progress(connection)
        assert progress.hours_from == ""
        assert "2026-01-31T00" < progress.days_from < progress.days_until == "2026-01-31T14"
        assert progress.built_from == progress.days_from
        build_step(connection, NOW + timedelta(hours=1), 3)
        later = read_progress(connection)
        assert (later.days_from, later.days_until) == (progress.days_from, "2026-01-31T15")
        assert list(find_wrong(connection)) == []


def test_an_upgrade_adds_no_old_row_itself_and_the_build_ends_with_the_current_hour() -> None:
    with open_ledger(make_rows(40)) as connection:
        assert count_calls(connection) == dict.fromkeys(count_calls(connection), 0)
        assert build_all(connection) > 20
        assert read_progress(connection) == Progress("", "2026-01-31T14", "")
        # Three of the calls came in the current hour.
        assert count_calls(connection) == {"rollups": 40} | dict.fromkeys(ENDED, 37)


def test_a_new_row_of_the_moment_that_a_build_has_reached_is_counted() -> None:
    with open_ledger(make_rows(9)) as connection:
        build_step(connection, NOW, 3)
        write(connection, make_row("late", created_at=read_progress(connection).hours_from))
        assert list(find_wrong(connection)) == []
        assert count_calls(connection)["rollups"] == 4


def test_rows_of_one_millisecond_do_not_stop_the_build() -> None:
    with open_ledger([make_row(f"call-{number}") for number in range(20)]) as connection:
        assert build_all(connection) < 10
        assert list(find_wrong(connection)) == []
        assert set(count_calls(connection).values()) == {20}


# Comparison and repair.


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("UPDATE rollups SET retail_nanousd = 1 WHERE hour = '2026-01-31T12'", ["rollups 2026-01-31T12"]),
        (
            "UPDATE rollups SET duration_buckets = '{\"5\":1}' WHERE hour = '2026-01-31T12'",
            ["rollups 2026-01-31T12"],
        ),
        ("DELETE FROM rollups WHERE hour = '2026-01-31T11'", ["rollups 2026-01-31T11"]),
        (
            "UPDATE rollups SET hour = '2030' WHERE hour = '2026-01-31T13'",
            ["rollups 2026-01-31T13", "rollups 2030"],
        ),
        ("UPDATE days SET calls = 1 WHERE day = '2026-01-31'", ["days 2026-01-31"]),
        ("DELETE FROM days", ["days 2026-01-31"]),
        ("UPDATE days SET day = '2026-01-30'", ["days 2026-01-30", "days 2026-01-31"]),
    ],
    ids=str,
)
def test_a_wrong_period_is_found_and_repaired(damage: str, found: list[str]) -> None:
    with open_ledger(make_rows(40)) as connection:
        build_all(connection)
        assert list(find_wrong(connection)) == []
        connection.execute(damage)
        wrong = list(find_wrong(connection))
        assert [f"{table.name} {period}" for table, period in wrong] == found
        for one in wrong:
            repair(connection, one)
        assert list(find_wrong(connection)) == []
