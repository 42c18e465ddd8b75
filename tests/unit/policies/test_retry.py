"""Which failed attempts are made once more at the same place, and after how long."""

import pytest

from policies.retry import LEAST_WAIT_S, MOST_WAIT_S, find_retry_wait_s


@pytest.mark.parametrize(
    ("status", "is_sent", "after_s", "should_retry", "waits"),
    [
        (429, True, None, None, 0.6),
        (500, True, None, None, 0.6),
        (503, True, None, None, 0.6),
        (529, True, None, None, 0.6),
        (None, False, None, None, 0.6),  # a refused connection
        (429, True, 1, None, 1.0),
        (503, True, 2, None, 2.0),
        (429, True, 3, None, None),
        (429, True, None, False, None),
        (429, True, None, True, 0.6),
        # These may have been served, and charged, without a sign of it.
        (None, True, None, None, None),
        (408, True, None, None, None),
        (502, True, None, None, None),
        (504, True, None, None, None),
        (400, True, None, None, None),
        (401, True, None, None, None),
        (404, True, None, True, None),
        (200, True, None, None, None),
    ],
)
def test_a_retry_waits(
    status: int | None, is_sent: bool, after_s: int | None, should_retry: bool | None, waits: float | None
) -> None:
    found = find_retry_wait_s(status, is_sent=is_sent, after_s=after_s, should_retry=should_retry, chance=0.5)
    assert found == (None if waits is None else pytest.approx(waits))


def test_the_wait_is_within_its_bounds() -> None:
    waits = [
        find_retry_wait_s(500, is_sent=True, after_s=None, should_retry=None, chance=chance)
        for chance in (0, 1)
    ]
    assert waits == [LEAST_WAIT_S, MOST_WAIT_S]
