"""Which days are compared, in which time zone, and by what."""

from datetime import UTC, date, datetime

import pytest

from addon.reconcile.export_line import Export, ExportError, ExportLine
from addon.reconcile.plan import make_plan


def export(*lines: ExportLine, days: tuple[str, ...] = (), **more: object) -> Export:
    return Export("x", lines, frozenset({line.day for line in lines} | set(days)), **more)  # type: ignore[arg-type]


LINE = ExportLine("2026-10-14", "m", "key_a", cost_nanousd=1)
NO_KEY = ExportLine("2026-10-14", "m", cost_nanousd=1)


def test_without_a_month_the_days_of_the_export_are_compared() -> None:
    plan = make_plan([export(LINE, days=("2026-10-12", "2026-10-16"))], None)
    assert (plan.first, plan.last) == (date(2026, 10, 12), date(2026, 10, 16))
    assert (plan.since, plan.until) == (
        datetime(2026, 10, 12, tzinfo=UTC),
        datetime(2026, 10, 17, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("month", "last"), [("2026-02", 28), ("2028-02", 29), ("2026-12", 31), ("2026-04", 30)]
)
def test_a_month_has_all_its_days(month: str, last: int) -> None:
    plan = make_plan([export(ExportLine(f"{month}-03", "m"))], month)
    assert (plan.first.day, plan.last.day) == (1, last)
    assert plan.has_day(f"{month}-{last}")
    assert plan.has_day(month)


def test_an_export_by_month_makes_all_by_month() -> None:
    plan = make_plan([export(ExportLine("2026-10", "m"), LINE)], None)
    assert plan.by_month
    assert (plan.last, plan.name_day("2026-10-14")) == (date(2026, 10, 31), "2026-10")


def test_a_day_of_another_zone_begins_at_its_own_midnight() -> None:
    """On 2026-11-01 clocks of the Pacific are turned back."""
    pacific = export(ExportLine("2026-11-01", "m"), time_zone="America/Los_Angeles")
    plan = make_plan([pacific], None)
    assert plan.since == datetime(2026, 11, 1, 7, tzinfo=UTC)
    assert plan.until == datetime(2026, 11, 2, 8, tzinfo=UTC)
    assert plan.day_of(datetime(2026, 11, 2, 7, 59, tzinfo=UTC)) == "2026-11-01"


def test_what_can_not_be_compared_is_refused() -> None:
    with pytest.raises(ExportError, match="days of different time zones: Asia/Shanghai, UTC"):
        make_plan([export(LINE), export(LINE, time_zone="Asia/Shanghai")], None)
    with pytest.raises(ExportError, match="further pages are missing"):
        make_plan([export(LINE, has_more=True)], None)
    with pytest.raises(ExportError, match="it has no days; name the month with --month"):
        make_plan([export()], None)


def test_an_export_without_keys_keeps_them_from_being_told_apart() -> None:
    assert make_plan([export(LINE)], None, {"key_a": None}).keys == {"key_a"}
    plan = make_plan([export(LINE), export(NO_KEY)], None, {"key_a": None})
    assert plan.keys == frozenset()
    assert list(plan.notes) == ["an export has no keys, so --key has no effect"]


def test_notes_say_what_the_export_lacks() -> None:
    day = ExportLine("2026-10-14", cost_nanousd=1)
    assert "not grouped by model" in make_plan([export(day)], None).notes[0]
    counted = ExportLine("2026-10-14", "m", requests=1)
    assert "has no costs" in make_plan([export(counted)], None).notes[0]
    pages = [export(LINE), export(NO_KEY, has_more=True)]
    assert "a further page may be missing" in make_plan(pages, None).notes[0]
