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
