"""How ``tollgate usage`` reads moments."""

from datetime import UTC, datetime

import pytest

from addon.commands.usage import parse_moment

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", "2026-01-31T00:00:00+00:00"),
        ("2026-01-31T09:30", "2026-01-31T09:30:00+00:00"),
        ("2026-01-31T09:30:00Z", "2026-01-31T09:30:00+00:00"),
        ("2026-01-31T09:30+05:30", "2026-01-31T04:00:00+00:00"),
        ("90m", "2026-03-01T10:30:00+00:00"),
        ("12h", "2026-03-01T00:00:00+00:00"),
        ("7d", "2026-02-22T12:00:00+00:00"),
        ("2w", "2026-02-15T12:00:00+00:00"),
    ],
)
def test_a_moment_is_a_date_a_time_or_a_length_of_time_ago(text: str, moment: str) -> None:
    assert parse_moment(text, NOW).isoformat() == moment
