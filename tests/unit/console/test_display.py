"""Values as pages show them."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from addon.console import display
from addon.console.cells import heading, make_cell

MINUS = "\u2212"


@pytest.mark.parametrize(
    ("nanousd", "shown", "exact"),
    [
        (None, "–", "–"),
        (0, "$0.00", "$0.00"),
        (1, "$0.000000001", "$0.000000001"),
        (1_560, "$0.00000156", "$0.00000156"),
        (15_649_999, "$0.0156", "$0.015649999"),
        (100_000_000, "$0.10", "$0.10"),
        (100_000_001, "$0.100", "$0.100000001"),
        (18_004_000, "$0.0180", "$0.018004"),
        (999_999_999, "$1.00", "$0.999999999"),
        (1_000_000_000, "$1.00", "$1.00"),
        (1_234_567_890_123, "$1,234.57", "$1,234.567890123"),
        (-5_000_000_000, f"{MINUS}$5.00", f"{MINUS}$5.00"),
        (10**16, "$10,000,000.00", "$10,000,000.00"),
    ],
)
def test_money(nanousd: int | None, shown: str, exact: str) -> None:
    assert display.money(nanousd) == shown
    assert display.exact_money(nanousd) == exact


@pytest.mark.parametrize(
    ("microusd", "shown"),
    [(None, "–"), (0, "$0.00"), (150_000, "$0.15"), (156_001, "$0.156001"), (10**12, "$1,000,000.00")],
)
def test_prices_are_exact(microusd: int | None, shown: str) -> None:
    assert display.price(microusd) == shown


@pytest.mark.parametrize(
    ("number", "long", "short"),
    [
        (None, "–", "–"),
        (0, "0", "0"),
        (9_999, "9,999", "9,999"),
        (12_345, "12,345", "12.3 K"),
        (99_960, "99,960", "100 K"),
        (999_499, "999,499", "999 K"),
        (999_500, "999,500", "1 M"),
        (1_234_567, "1,234,567", "1.23 M"),
        (10**16, "10,000,000,000,000,000", "10,000 T"),
        (-12_345, "-12,345", "-12.3 K"),
    ],
)
def test_counts(number: int | None, long: str, short: str) -> None:
    assert display.count(number) == long
    assert display.short_count(number) == short


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (None, "–"),
        (0, "0 ms"),
        (840, "840 ms"),
        (999.6, "1 s"),
        (2_449, "2.4 s"),
        (59_949, "59.9 s"),
        (59_950, "1 min"),
        (200_000, "3 min 20 s"),
        (7_500_000, "2 h 5 min"),
        (273_600_000, "3 d 4 h"),
        (10**16, "115,740,740 d 17 h"),
    ],
)
def test_durations(milliseconds: float | None, shown: str) -> None:
    assert display.duration(milliseconds) == shown


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (None, "–"),
        (0, "0%"),
        (0.00001, "<0.01%"),
        (0.0012, "0.12%"),
        (0.123, "12.3%"),
        (0.5, "50%"),
        (1, "100%"),
        (12, "1,200%"),
        (-0.05, f"{MINUS}5%"),
    ],
)
def test_percents(part: float | None, shown: str) -> None:
    assert display.percent(part) == shown


@pytest.mark.parametrize(
    ("now", "before", "shown", "direction"),
    [
        (0, 0, None, None),
        (None, 1, None, None),
        (1, 0, "new", "up"),
        (110, 100, "+10%", "up"),
        (90, 100, f"{MINUS}10%", "down"),
        (0, 100, f"{MINUS}100%", "down"),
        (10_040, 10_000, "±0%", "same"),
        (5_000, 100, "50×", "up"),
    ],
)
def test_changes(now: float | None, before: float, shown: str | None, direction: str | None) -> None:
    found = display.change(now, before)
    assert (found and found.text) == shown
    assert (found and found.direction) == direction


def test_moments_are_of_utc() -> None:
    found = display.moment("2026-11-22T09:30:00.123+00:00")
    assert found == display.Moment(
        "2026-11-22 09:30:00", "2026-11-22 09:30:00.123 UTC", "2026-11-22T09:30:00.123Z"
    )
    east = datetime(2026, 11, 22, 1, tzinfo=timezone(timedelta(hours=2)))
    assert getattr(display.moment(east), "text", None) == "2026-11-21 23:00:00"
    assert display.moment("<script>") is None
    assert display.moment(None) is None


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("gpt-4o", "gpt-4o"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\u202eabc\u200b\x00\x1b[31m", "\\u202eabc\\u200b\\x00\\x1b[31m"),
        ("\ud800", "\\ud800"),
        ("مرحبا", "مرحبا"),
        ("u" * 256, "u" * 256),
        ("u" * 257, "u" * 255 + "…"),
    ],
)
def test_texts_of_others_are_harmless(written: str, shown: str) -> None:
    assert display.text(written) == shown


def test_lines_of_files_stay_lines() -> None:
    assert display.printable("a\n\tb\u202e") == "a\n\tb\\u202e"


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("created_at", "Time (UTC)"),
        ("expires_at", "Expires (UTC)"),
        ("retail_nanousd", "Spend"),
        ("left_nanousd", "Left"),
        ("input_microusd_per_mtok", "Input"),
        ("error_rate", "Error rate"),
        ("key_id", "Key"),
        ("byok_only", "BYOK only"),
        ("limit_rpm", "Limit RPM"),
        ("tpm", "Tokens a minute"),
        ("_ms", "_ms"),
    ],
)
def test_headings_are_words(column: str, words: str) -> None:
    assert heading(column) == words


@pytest.mark.parametrize(
    ("column", "value", "shown", "title", "kind"),
    [
        ("left_nanousd", 1_234_567_890, "$1.23", "$1.23456789", "number"),
        ("input_microusd_per_mtok", 150_000, "$0.15", "", "number"),
        ("duration_ms", 2_400, "2.4 s", "2,400 ms", "number"),
        ("age_s", 90, "1 min 30 s", "90 s", "number"),
        ("margin_percent", 3.8462, "3.8%", "", "number"),
        ("error_rate", 0.05, "5%", "", "number"),
        ("calls", 12_345, "12,345", "", "number"),
        ("active", True, "yes", "", "text"),
        ("stream", 0, "no", "", "text"),
        ("status", 200, "200", "", "badge"),
        ("hour", "2026-11-22T09", "2026-11-22 09:00", "UTC", "moment"),
        ("expires_at", "never\u202e", "never\\u202e", "", "name"),
        ("models", ["a", "b"], "a, b", "", "name"),
        ("end_user", "", "–", "", "nothing"),
        ("end_user", None, "–", "", "nothing"),
        ("calls", "text in a number's place", "text in a number's place", "", "name"),
    ],
)
def test_a_column_decides_how_its_cells_look(
    column: str, value: Any, shown: str, title: str, kind: str
) -> None:
    cell = make_cell(column, value)
    assert (cell.text, cell.title, cell.kind) == (shown, title, kind)
