"""When budgets end: a table of cases, and what holds for all."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.budget_forecast import LONGEST, SHORTEST, WINDOW, Forecast, Use, forecast
from policies.limits import EVER, period_end

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)  # A Friday.


@pytest.mark.parametrize(
    ("left", "amount", "since", "period", "expected"),
    [
        (0, 70, WINDOW, EVER, Forecast("used_up")),
        (-5, 0, WINDOW, EVER, Forecast("used_up")),
        (100, 0, WINDOW, EVER, Forecast("unused")),
        # Ten a day.
        (100, 70, WINDOW, EVER, Forecast("ends", NOW + timedelta(days=10))),
        (100, 20, timedelta(days=2), EVER, Forecast("ends", NOW + timedelta(days=10))),
        # Calls before the window do not slow the rate.
        (100, 70, timedelta(days=30), EVER, Forecast("ends", NOW + timedelta(days=10))),
        (100, 70, WINDOW, "2026-11", Forecast("ends", NOW + timedelta(days=10))),
        (110, 70, WINDOW, "2026-11", Forecast("resets_first")),
        (20, 70, WINDOW, "2026-W47", Forecast("ends", NOW + timedelta(days=2))),
        (30, 70, WINDOW, "2026-W47", Forecast("resets_first")),
        (4, 70, WINDOW, "2026-11-20", Forecast("ends", NOW + timedelta(hours=9, minutes=36))),
        (5, 70, WINDOW, "2026-11-20", Forecast("resets_first")),
        (100, 70, timedelta(minutes=59), EVER, Forecast("too_early")),
        (100, 60, timedelta(hours=1), EVER, Forecast("ends", NOW + timedelta(minutes=100))),
        (10**9, 70, WINDOW, EVER, Forecast("lasts")),
    ],
)
def test_the_outlook_of_a_budget(
    left: int, amount: int, since: timedelta, period: str, expected: Forecast
) -> None:
    assert forecast(left, Use(amount, NOW - since), period, NOW) == expected


def test_without_calls_there_is_no_rate() -> None:
    assert forecast(1, None, EVER, NOW) == Forecast("unused")


AMOUNTS = st.integers(1, 10**16)
OBSERVED = st.timedeltas(SHORTEST, timedelta(days=40))
PERIODS = st.sampled_from([EVER, "2026-11", "2026-W47", "2026-11-20"])


@given(AMOUNTS, AMOUNTS, OBSERVED, PERIODS)
def test_an_end_is_where_the_rate_meets_what_is_left(
    left: int, amount: int, observed: timedelta, period: str
) -> None:
    found = forecast(left, Use(amount, NOW - observed), period, NOW)
    window = min(observed, WINDOW)
    if found.ends_at is not None:
        assert NOW <= found.ends_at <= NOW + LONGEST
        assert period == EVER or found.ends_at < datetime.fromisoformat(period_end(period)).replace(
            tzinfo=UTC
        )
        used = (found.ends_at - NOW) / window * amount
        assert used == pytest.approx(left, rel=1e-6, abs=amount / (window / timedelta(microseconds=1)))
    else:
        assert found.outlook in ("resets_first", "lasts")


@given(AMOUNTS, AMOUNTS, AMOUNTS, OBSERVED, PERIODS)
def test_more_use_or_less_left_never_ends_later(
    left: int, amount: int, more: int, observed: timedelta, period: str
) -> None:
    def end(left: int, amount: int) -> datetime:
        found = forecast(left, Use(amount, NOW - observed), period, NOW)
        return found.ends_at or datetime.max.replace(tzinfo=UTC)

    assert end(left, amount + more) <= end(left, amount) <= end(left + more, amount)
