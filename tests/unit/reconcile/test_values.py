"""Counts, amounts and days as vendors write them."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.reconcile.values import LARGEST, parse_amount, parse_count, parse_day


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("7", 7), ("31422.0", 31422), ("1,000,000", 10**6), (" 5 ", 5), ("1E+3", 1000)],
)
def test_a_count(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize(
    ("text", "nanousd"),
    [
        ("", 0),
        ("1.25", 1_250_000_000),
        ("$1,234.56", 1_234_560_000_000),
        ("-0.02", -20_000_000),
        ("1e-7", 100),
        ("0.0000000005", 1),
        ("0.00000000049999999999999999999999", 0),
        ("2.400000000000000000000000000000", 2_400_000_000),
    ],
)
def test_an_amount(text: str, nanousd: int) -> None:
    assert parse_amount(text) == nanousd


def test_an_amount_in_cents() -> None:
    assert parse_amount("123.45", 10**7) == 1_234_500_000


@given(st.decimals(-(10**8), 10**8, allow_nan=False, places=9))
def test_no_nano_dollar_is_lost(amount: Decimal) -> None:
    assert parse_amount(str(amount)) == int(amount * 10**9)


@pytest.mark.parametrize(
    "text",
    [
        *("x", "1.2.3", "1e999", "--1", "NaN", "Infinity", "٣", "9" * 30, str(LARGEST)),
        *("0,0016", "1,25", "1.234,56", "1,2,3", "1234,567"),  # a comma before decimals, or misplaced
    ],
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_amount(text)


@pytest.mark.parametrize("text", ["1.5", "-1", "9" * 20, "one"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_count(text)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2026-10-14", "2026-10-14"),
        ("1791936000", "2026-10-14"),
        ("1791936000.0", "2026-10-14"),
        ("2026-10-14T00:00:00Z", "2026-10-14"),
        ("2026-10-14T23:30:00-02:00", "2026-10-15"),
        ("2026-06-28 03:46:57.713", "2026-06-28"),
        ("2026-10-14 00:00:00 UTC", "2026-10-14"),
    ],
)
def test_a_day(text: str, day: str) -> None:
    assert parse_day(text) == day


@pytest.mark.parametrize(
    "text", ["", "2026-13-01", "14.10.2026", "999999999999", "0001-01-01T00:00:00+14:00", "x"]
)
def test_what_is_no_day_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_day(text)
