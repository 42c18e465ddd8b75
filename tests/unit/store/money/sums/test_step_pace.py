"""The pace of short steps: their size follows the time that one takes."""

import sqlite3
from contextlib import closing

import pytest

from addon.store.money.sums.step_pace import _STEP_S, StepPace


@pytest.mark.parametrize(("took_s", "factor"), [(0.4, 2), (0.7, 1), (1.2, 0.5)])
def test_a_step_that_takes_about_its_time_stays_as_large_as_it_is(took_s: float, factor: float) -> None:
    now_s = [0.0]

    def pass_time() -> float:
        now_s[0] += took_s * _STEP_S
        return now_s[0]

    pace = StepPace(pass_time)
    pace.rows = before = 400
    with closing(sqlite3.connect(":memory:")) as connection, pace.step(connection):
        pass
    assert pace.rows == factor * before
    assert pace.rest_s > 0
