"""Which lost requests may be sent again, and how long connections may be idle."""

from itertools import product

import pytest

from policies.resend import LostRequest, compute_window_s, halve_idle_bound_s, may_send_again

STALE = LostRequest(by_provider=True, is_reused=True, is_answered=False, is_written=True, is_early=True)


@pytest.mark.parametrize(
    ("by_provider", "is_reused", "is_answered", "is_written", "is_early", "resends"),
    list(product([False, True], [False, True], [False, True], [False, True], [False, True], [0, 1])),
)
def test_a_request_is_sent_again_once_and_only_if_its_provider_can_not_have_read_it(
    by_provider: bool, is_reused: bool, is_answered: bool, is_written: bool, is_early: bool, resends: int
) -> None:
    lost = LostRequest(by_provider, is_reused, is_answered, is_written, is_early)
    allowed = {
        # by the provider, reused, answered, written, early, resends before
        (True, True, False, False, False, 0),
        (True, True, False, False, True, 0),
        (True, True, False, True, True, 0),
    }
    asked = (by_provider, is_reused, is_answered, is_written, is_early, resends)
    assert may_send_again(lost, resends) == (asked in allowed)


@pytest.mark.parametrize(
    ("round_trip_s", "window_s"), [(None, 0.02), (0.0, 0.02), (0.03, 0.08), (0.25, 0.52), (9.0, 0.52)]
)
def test_the_window_follows_the_round_trip_up_to_a_bound(round_trip_s: float | None, window_s: float) -> None:
    assert compute_window_s(round_trip_s) == pytest.approx(window_s)


@pytest.mark.parametrize(
    ("bound_s", "idled_s", "next_s"),
    [
        (50, 5, 25),
        (25, 5, 12.5),
        (6.25, 5, 3.125),
        (3.125, 5, 3.125),  # It was idle before the bound was this short.
        (3.125, 1, 2),
        (2, 1, 2),
        (0.5, 0.1, 0.5),  # A pool whose own bound is shorter keeps it.
    ],
)
def test_an_idle_bound_is_halved_down_to_two_seconds(bound_s: float, idled_s: float, next_s: float) -> None:
    assert halve_idle_bound_s(bound_s, idled_s) == next_s
