"""How ``tollgate usage`` reads moments and writes money."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.commands.usage import format_usd, parse_moment

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


@pytest.mark.parametrize(
    ("amount_nanousd", "text"),
    [
        (0, "0.000000"),
        (499, "0.000000"),
        (500, "0.000001"),
        (1_234_567_890, "1.234568"),
        (999_999_500, "1.000000"),
        (2**63 - 1, "9223372036.854776"),
    ],
)
def test_costs_are_shown_in_usd_with_six_decimals_rounded_half_up(amount_nanousd: int, text: str) -> None:
    assert format_usd(amount_nanousd) == text


@given(st.integers(0, 10**16))
def test_a_shown_cost_is_off_by_half_a_microusd_at_most(amount_nanousd: int) -> None:
    whole, decimals = format_usd(amount_nanousd).split(".")
    assert len(decimals) == 6
    assert -500 <= amount_nanousd - int(whole + decimals) * 1000 < 500
