"""Each element of a list in a delta gets an index."""

from rig.normalized import relayed


def test_objects_in_lists_of_a_delta_get_an_index():
    notes = [[{"index": 0, "delta": {"annotations": [{"type": "url_citation", "at": at}]}}] for at in (1, 2)]
    assert [one[0]["delta"]["annotations"] for one in relayed(notes)] == [
        [{"type": "url_citation", "at": 1, "index": 0}],
        [{"type": "url_citation", "at": 2, "index": 1}],
    ]
