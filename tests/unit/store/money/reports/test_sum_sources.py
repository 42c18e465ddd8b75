"""Which tables are read: the smallest that has it all, and rows only where there are no sums."""

import sqlite3
from collections.abc import Iterator
from datetime import timedelta

import pytest
from rig.ledger import make_row
from rig.rollups import NOW, build_all, open_ledger

from addon.store.money.reports.call_filter import Filter
from addon.store.money.reports.figures import read_figures
from addon.store.money.reports.last_use import find_last_hours
from addon.store.money.reports.recent_calls import find_times
from addon.store.money.reports.sum_sources import (
    KEY_HOURS,
    MODEL_DAYS,
    MODEL_HOURS,
    find_days,
    find_hours,
    split_time,
)
from addon.store.money.sums.rollup_schema import AFTER_ALL


@pytest.fixture
def built() -> Iterator[sqlite3.Connection]:
    """A ledger with a call in every third hour of four days, and all sums of it."""
    moments = [NOW - timedelta(hours=hours) for hours in range(0, 96, 3)]
    rows = [
        make_row(f"call-{place}", created_at=moment.isoformat(timespec="milliseconds"))
        for place, moment in enumerate(moments)
    ]
    with open_ledger(rows) as connection:
        build_all(connection)
        yield connection


def tables_read(connection: sqlite3.Connection) -> list[str]:
    """Collect the statements that this connection runs from now on."""
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    return statements


def test_the_smallest_table_is_chosen() -> None:
    assert find_hours(["workspace", "key_id"]) is KEY_HOURS
    assert find_hours(["model_slug"]) is MODEL_HOURS
    assert find_days(["model_slug"]) is MODEL_DAYS


def test_small_sums_are_read_for_all_hours_that_have_them(built: sqlite3.Connection) -> None:
    parts = [part for part in split_time(built, Filter(), None, KEY_HOURS) if part.begin < part.end]
    assert (parts[0].source, parts[0].begin, parts[0].end[:10]) == (KEY_HOURS, "", "2026-01-31")


def test_the_last_use_is_read_from_days_and_then_from_hours_of_the_last(built: sqlite3.Connection) -> None:
    statements = tables_read(built)
    find_last_hours(built, "acme")
    assert any(" FROM days " in one for one in statements)
    built.set_trace_callback(None)


def test_only_rare_calls_are_looked_for_period_by_period(built: sqlite3.Connection) -> None:
    assert list(find_times(built, Filter("acme"))) == [("", AFTER_ALL)]
    assert len(list(find_times(built, Filter(model="tester-large")))) > 24


def test_an_error_code_is_looked_for_only_in_hours_with_failed_calls(built: sqlite3.Connection) -> None:
    searched = find_times(built, Filter(error_code="upstream_error"))
    assert [begin for begin, end in searched if begin < end] == []


@pytest.mark.parametrize("status", ["error", "2xx"])
def test_a_class_of_statuses_is_the_same_in_rows_and_sums(built: sqlite3.Connection, status: str) -> None:
    whole = read_figures(built, [], Filter(status=status))
    of_rows = read_figures(built, [], Filter(status=status), "5min")
    assert sum(one.calls for one in whole.values()) == sum(one.calls for one in of_rows.values())
