"""The time that a page is about."""

from datetime import UTC, datetime

import pytest

from addon.console.query import Query
from addon.console.time_range import TimeRange

NOW = datetime(2026, 1, 31, 14, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "until"),
    [
        ({}, None),
        ({"range": "7d"}, None),
        ({"range": "month"}, None),
        ({"from": "2026-01-01"}, None),
        ({"from": "2026-01-01", "to": "2026-01-02"}, "2026-01-02T00:00:00.000+00:00"),
        ({"from": "2026-01-01", "to": "2026-01-31T14:20"}, "2026-01-31T14:20:00.000+00:00"),
    ],
)
def test_only_a_time_with_a_given_end_cuts_calls_off(values: dict[str, str], until: str | None) -> None:
    time = TimeRange.parse(Query(values), NOW)
    assert time.filter_until == until
    assert time.before().filter_until == time.since
