"""Prices that depend on the time: a later day ends what was before it, and hours are those of UTC."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.price_times import Hours, TimedPrices, find_in_force
from policies.prices import Prices

PRICES = Prices(1, 1, 1)
WORKDAYS = Hours(((60, 240), (360, 600)), frozenset(range(5)))
PEAK = TimedPrices(PRICES, PRICES, None, WORKDAYS)
LATER = TimedPrices(PRICES, PRICES, date(2027, 1, 1))
LATER_PEAK = TimedPrices(PRICES, PRICES, date(2027, 1, 1), Hours(((0, 60),)))
LAST = TimedPrices(PRICES, PRICES, date(2027, 2, 1))
TIMED = (PEAK, LATER, LATER_PEAK, LAST)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2026-11-23T00:59:59.999999", None),  # a Monday
        ("2026-11-23T01:00:00", PEAK),
        ("2026-11-23T03:59:59.999999", PEAK),
        ("2026-11-23T04:00:00", None),
        ("2026-11-23T09:59:59", PEAK),
        ("2026-11-21T02:00:00", None),  # a Saturday
        ("2026-12-31T23:59:59.999999", None),
        ("2027-01-01T00:00:00", LATER_PEAK),
        ("2027-01-01T01:00:00", LATER),  # the hours before that day have ended
        ("2027-01-31T23:59:59", LATER),
        ("2027-02-01T00:30:00", LAST),
        ("2099-01-01T00:30:00", LAST),
    ],
)
def test_the_prices_of_the_moment_hold(moment: str, expected: TimedPrices | None) -> None:
    assert find_in_force(TIMED, datetime.fromisoformat(moment).replace(tzinfo=UTC)) is expected


@given(st.datetimes(datetime(2026, 1, 1), datetime(2028, 1, 1)), st.integers(-14, 14))
def test_a_moment_counts_in_utc(naive: datetime, offset: int) -> None:
    moment = naive.replace(tzinfo=UTC)
    elsewhere = moment.astimezone(timezone(timedelta(hours=offset)))
    assert find_in_force(TIMED, elsewhere) is find_in_force(TIMED, moment)


@given(st.datetimes(datetime(2026, 1, 1), datetime(2028, 1, 1)))
def test_only_prices_that_have_begun_hold(naive: datetime) -> None:
    found = find_in_force(TIMED, naive.replace(tzinfo=UTC))
    assert found is None or found.from_date is None or found.from_date <= naive.date()


def test_hours_of_different_days_do_not_overlap() -> None:
    weekend = Hours(((60, 240),), frozenset((5, 6)))
    assert not WORKDAYS.overlap(weekend)
    assert not WORKDAYS.overlap(Hours(((240, 360),)))
    assert WORKDAYS.overlap(Hours(((239, 360),)))


def test_a_place_has_a_name() -> None:
    assert [one.place for one in (PEAK, LATER, LATER_PEAK)] == [
        "hours[01:00-04:00,06:00-10:00 mon,tue,wed,thu,fri]",
        "dated[2027-01-01]",
        "dated[2027-01-01].hours[00:00-01:00]",
    ]
