"""Request ids: unique, and in the order of the calls of a process."""

import re

from addon.calls.request_id import make_request_ids


def test_ids_of_one_process_are_unique_and_ordered() -> None:
    new_id = make_request_ids()
    made = [new_id() for _ in range(1_000)]
    assert made == sorted(set(made))
    assert all(re.fullmatch(r"req_[0-9a-f]{24}", one) for one in made)


def test_ids_of_two_processes_differ() -> None:
    assert make_request_ids()() != make_request_ids()()


def test_no_id_has_digits_that_look_like_a_status_in_which_to_ask_again() -> None:
    prefixes = iter(["ab502cdeabcdeabc", "abcdeabcdeabcde5", "abcdeabcdeabcdea"])
    new_id = make_request_ids(lambda _: next(prefixes))
    made = [new_id() for _ in range(0x600)]
    assert made[0] == "req_abcdeabcdeabcdea00000001"
    assert not [one for one in made if re.search("429|500|502|503|504|524", one)]
    assert "req_abcdeabcdeabcdea00000501" in made, "no other number is left out"
