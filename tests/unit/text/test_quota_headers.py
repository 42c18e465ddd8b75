"""What vendors' headers say of their quotas, in the forms that recorded answers have."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.text.quota_headers import MAX_REST_S, find_rest_s, parse_reset_s

NOW = datetime(2026, 11, 26, 12, 0, 0, tzinfo=UTC)
PAIRS = (("left", "reset"), ("left-by-day", "reset-by-day"))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6ms", 0.006),
        ("0s", 0.0),
        ("1.5s", 1.5),
        ("6m0s", 360.0),
        ("2m59.56s", 179.56),
        ("1h2m3s", 3723.0),
        ("1d", 86400.0),
        ("1m0.5ms", 60.0005),
        ("0", 0.0),
        ("23.75", 23.75),
        (" 59 ", 59.0),
        ("2026-11-26T12:00:07Z", 7.0),
        ("2026-11-26T12:00:07+00:00", 7.0),
        ("2026-11-26T11:00:00Z", 0.0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("5 s", None),
        ("9" * 50, None),
    ],
)
def test_a_reset_is_a_duration_seconds_or_a_time(text: str, seconds: float | None) -> None:
    found = parse_reset_s(text, NOW)
    assert found == (None if seconds is None else pytest.approx(seconds))


@given(st.text(max_size=60))
def test_no_text_is_a_fault_or_a_time_in_the_past(text: str) -> None:
    found = parse_reset_s(text, NOW)
    assert found is None or found >= 0


@pytest.mark.parametrize(
    ("headers", "least", "rest_s"),
    [
        ({"left": "0", "reset": "7s"}, 1, 7.0),
        ({"left": "1", "reset": "7s"}, 1, None),
        ({"left": "999", "reset": "7s"}, 1000, 7.0),
        ({"left": "1000", "reset": "7s"}, 1000, None),
        # Azure says -1 where a deployment has no quota.
        ({"left": "-1", "reset": "0"}, 1, None),
        ({"left": "0"}, 1, None),
        ({"reset": "7s"}, 1, None),
        ({"left": "many", "reset": "7s"}, 1, None),
        ({"left": "0", "reset": "7s", "left-by-day": "0", "reset-by-day": "12h"}, 1, MAX_REST_S),
        ({}, 1, None),
    ],
)
def test_a_quota_rests_while_too_little_remains(
    headers: dict[str, str], least: int, rest_s: float | None
) -> None:
    assert find_rest_s(headers, PAIRS, least, NOW) == rest_s
