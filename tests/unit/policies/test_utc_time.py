"""The format of times: as the standard library's, in UTC, to the millisecond."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from policies.utc_time import format_utc

ZONES = st.sampled_from([UTC, *(timezone(timedelta(minutes=offset)) for offset in (-719, 0, 60, 345))])


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=ZONES))
def test_a_time_is_in_utc_to_the_millisecond(moment: datetime) -> None:
    assert format_utc(moment) == moment.astimezone(UTC).isoformat(timespec="milliseconds")


def test_a_whole_second_has_its_milliseconds() -> None:
    assert format_utc(datetime(2026, 11, 21, 9, 30, tzinfo=UTC)) == "2026-11-21T09:30:00.000+00:00"
