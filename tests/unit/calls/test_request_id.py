"""The ids of requests."""

from addon.calls.request_id import RequestIds


def test_request_ids_come_from_what_they_are_given_and_count_up():
    ids = RequestIds(lambda size: "ab" * size)
    assert [ids.next(), ids.next()] == ["req_abababababababab00000001", "req_abababababababab00000002"]


def test_request_ids_of_two_processes_differ():
    assert RequestIds().next() != RequestIds().next()
