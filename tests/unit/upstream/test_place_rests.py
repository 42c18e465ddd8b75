"""How long places rest, by place and caller, within a bound."""

from rig.platform_keys import Rig

from addon.upstream.place_rests import MAX_RESTS, PlaceRests

NEVER = float("-inf")


class Clock(Rig):
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0


def test_a_rest_is_of_one_caller_at_one_place_and_ends() -> None:
    clock = Clock()
    rests = PlaceRests(clock)
    assert not rests
    rests.note("A/m", "acme", 10)
    assert rests.until_s("A/m", "acme") == 110
    assert rests.until_s("A/m", "globex") == rests.until_s("A/n", "acme") == NEVER
    rests.note("A/m", "acme", 5)
    assert rests.until_s("A/m", "acme") == 110
    clock.now_s = 110
    rests.until_s("A/m", "acme")
    assert not rests


def test_the_rests_are_bounded_and_the_shortest_goes() -> None:
    rests = PlaceRests(Clock())
    for number in range(MAX_RESTS + 5):
        rests.note("A/m", number, 1 + number)
    assert rests.until_s("A/m", 0) == NEVER
    assert rests.until_s("A/m", MAX_RESTS) > 0


def test_a_rest_that_ended_is_forgotten_though_no_call_asks_for_it() -> None:
    clock = Clock()
    rests = PlaceRests(clock)
    rests.note("A/gone", "acme", 10)
    rests.note("A/m", "acme", 20)
    clock.now_s = 115
    rests.forget_ended()
    assert rests.until_s("A/m", "acme") == 120
    clock.now_s = 120
    rests.forget_ended()
    assert not rests
