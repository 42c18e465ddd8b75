"""Months that are kept, that may be archived, and the names of their files."""

from datetime import UTC, datetime

import pytest

from policies.retention import add_months, archive_name, find_open_month, first_kept_month, parse_month

NOON = datetime(2026, 2, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("month", "count", "found"),
    [
        ("2026-01", -1, "2025-12"),
        ("2025-12", 1, "2026-01"),
        ("2026-05", -17, "2024-12"),
        ("2026-05", 0, "2026-05"),
    ],
)
def test_months_are_counted_over_the_turn_of_years(month: str, count: int, found: str) -> None:
    assert add_months(month, count) == found


@pytest.mark.parametrize(
    "text", ["2026-13", "2026-00", "2026-1", "2026", "26-01", "2026-01-01", "", "2026-01 "]
)
def test_only_a_year_and_a_month_are_a_month(text: str) -> None:
    assert parse_month("2026-01") == "2026-01"
    with pytest.raises(ValueError, match="is not a month such as 2026-01"):
        parse_month(text)


@pytest.mark.parametrize(("keep", "first"), [(1, "2026-01"), (12, "2025-02"), (14, "2024-12")])
def test_so_many_whole_months_before_the_current_one_are_kept(keep: int, first: str) -> None:
    assert first_kept_month(NOON, keep) == first


@pytest.mark.parametrize(
    ("now", "before", "found"),
    [
        (NOON, "2026-02", None),
        (NOON, "2026-03", "2026-02"),
        (NOON, "2999-01", "2026-02"),
        (datetime(2026, 2, 1, 23, 59, tzinfo=UTC), "2026-02", "2026-01"),
        (datetime(2026, 2, 2, tzinfo=UTC), "2026-02", None),
    ],
)
def test_a_month_is_settled_a_day_after_its_end(now: datetime, before: str, found: str | None) -> None:
    assert find_open_month(before, now) == found


@pytest.mark.parametrize(
    ("ledger", "name"),
    [
        ("tollgate.db", "tollgate-2025-11.db"),
        ("books.v2.sqlite", "books.v2-2025-11.sqlite"),
        ("ledger", "ledger-2025-11"),
        (".hidden", ".hidden-2025-11"),
    ],
)
def test_a_file_is_named_after_its_ledger_and_its_month(ledger: str, name: str) -> None:
    assert archive_name(ledger, "2025-11") == name
