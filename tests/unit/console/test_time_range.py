"""The chosen time of a page, at the ends of what a URL can ask for."""

from datetime import UTC, datetime

import pytest

from addon.console.query import ParameterError, Query
from addon.console.time_range import EARLIEST, TimeRange

NOW = datetime(2026, 1, 31, 14, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("1970-01-01", ""),
        ("1970-01-01", "2070-01-01"),
        ("2024-02-29", "2024-03-01"),
        ("2026-03-29T02:30", "2026-03-29T03:30"),
        ("9999-12-30", "9999-12-31"),
    ],
)
def test_each_range_has_one_before_it(begin: str, end: str) -> None:
    time = TimeRange.parse(Query({"from": begin, "to": end}), NOW)
    before = time.before()
    assert before.end == time.begin
    assert before.length == time.length or before.begin.year == 1


@pytest.mark.parametrize(
    "begin", ["0001-01-01", "1969-12-31", "1970-01-01T00:00+00:01", "0001-01-02T00:00-23:59"]
)
def test_a_range_begins_at_1970_at_the_earliest(begin: str) -> None:
    with pytest.raises(ParameterError, match="from: must not be before 1970-01-01"):
        TimeRange.parse(Query({"from": begin}), NOW)
    assert TimeRange.parse(Query({"from": EARLIEST.isoformat()}), NOW).begin == EARLIEST


@pytest.mark.parametrize(
    ("values", "until"),
    [
        ({}, None),
        ({"range": "7d"}, None),
        ({"range": "month"}, None),
        ({"range": "last_month"}, "2026-01-01T00:00:00.000+00:00"),
        ({"from": "2026-01-01"}, None),
        ({"from": "2026-01-01", "to": "2026-01-02"}, "2026-01-02T00:00:00.000+00:00"),
        ({"from": "2026-01-01", "to": "2026-01-31T14:30"}, "2026-01-31T14:30:00.000+00:00"),
    ],
)
def test_only_a_time_with_a_given_end_cuts_calls_off(values: dict[str, str], until: str | None) -> None:
    time = TimeRange.parse(Query(values), NOW)
    assert time.filter_until == until
    assert time.before().filter_until == time.before().until


@pytest.mark.parametrize(
    ("now", "before", "begin", "end"),
    [
        ("2026-01-31T14:30", "2025-11-01", "2025-12-01", "2026-01-01"),
        ("2026-01-01T00:00", "2025-11-01", "2025-12-01", "2026-01-01"),
        ("2024-03-31T23:59", "2024-01-01", "2024-02-01", "2024-03-01"),
    ],
)
def test_the_last_month_is_whole_and_so_is_the_one_before(
    now: str, before: str, begin: str, end: str
) -> None:
    first, second, third = (datetime.fromisoformat(day).replace(tzinfo=UTC) for day in (before, begin, end))
    time = TimeRange.parse(Query({"range": "last_month"}), datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert (time.begin, time.end, time.ends_now) == (second, third, False)
    assert (time.before().begin, time.before().end) == (first, second)


def test_a_range_has_a_hundred_years_at_most() -> None:
    with pytest.raises(ParameterError, match="to: must be at most a hundred years after from"):
        TimeRange.parse(Query({"from": "1970-01-01", "to": "9999-12-31"}), NOW)
