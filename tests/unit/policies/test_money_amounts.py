"""Amounts of money as text: read exactly, and shown in full or rounded half up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.money import format_nanousd, format_nanousd_rounded, parse_usd_nanousd


@pytest.mark.parametrize(
    ("text", "nanousd"),
    [("250", 250 * 10**9), ("20.5", 20_500_000_000), ("0.000000001", 1), ("9000000", 9 * 10**15)],
)
def test_an_amount_is_read_exactly(text: str, nanousd: int) -> None:
    assert parse_usd_nanousd(text) == nanousd


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("-1", "negative"),
        ("1e2", "plain decimal"),
        ("0.0000000001", "at most 9"),
        ("9000000.000000001", "too large"),
        ("10000000", "too large"),
    ],
)
def test_an_invalid_amount_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_usd_nanousd(text)


@pytest.mark.parametrize(
    ("nanousd", "text"),
    [
        (0, "0.00"),
        (1, "0.000000001"),
        (1_500_000_000, "1.50"),
        (-20_000_000, "-0.02"),
        (5 * 10**9, "5.00"),
        (123_456_000, "0.123456"),
    ],
)
def test_an_amount_is_shown_in_full_and_no_longer(nanousd: int, text: str) -> None:
    assert format_nanousd(nanousd) == text


@given(st.integers(0, 9 * 10**15))
def test_a_shown_amount_can_be_read_again(nanousd: int) -> None:
    assert parse_usd_nanousd(format_nanousd(nanousd)) == nanousd


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
    assert format_nanousd_rounded(amount_nanousd) == text


@given(st.integers(0, 10**16))
def test_a_shown_cost_is_off_by_half_a_microusd_at_most(amount_nanousd: int) -> None:
    whole, decimals = format_nanousd_rounded(amount_nanousd).split(".")
    assert len(decimals) == 6
    assert -500 <= amount_nanousd - int(whole + decimals) * 1000 < 500
