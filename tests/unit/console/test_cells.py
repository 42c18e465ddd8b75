"""Cells whose text says how exact a value is."""

import pytest

from addon.console.cells import make_cell


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("hour", "2026-01-31T14", "2026-01-31 14:00"),
        ("last_hour", "2026-01-31T14", "2026-01-31 14:00 to 14:59"),
        ("last_hour", "2026-01-31", "2026-01-31"),
    ],
)
def test_the_hour_of_the_last_call_does_not_look_like_its_time(column: str, value: str, text: str) -> None:
    assert make_cell(column, value).text == text
