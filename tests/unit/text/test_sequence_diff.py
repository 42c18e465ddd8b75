"""``compare`` returns edits as ``difflib`` does, also for texts that keep ``difflib`` busy for minutes."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.text.sequence_diff import compare

LINES = st.lists(
    st.sampled_from(["a", "b", "c", "d", *(f"line {number}" for number in range(40))]), max_size=150
)


def check(before: Sequence[str], after: Sequence[str]) -> int:
    """Check that the edits make ``after`` of ``before``. Return how many entries stay."""
    place = new_place = kept = 0
    made: list[str] = []
    for kind, start, end, new_start, new_end in compare(before, after):
        assert (start, new_start) == (place, new_place)
        made += before[start:end] if kind == "equal" else after[new_start:new_end]
        kept += end - start if kind == "equal" else 0
        assert (kind == "insert") == (start == end)
        assert (kind == "delete") == (new_start == new_end)
        place, new_place = end, new_end
    assert (place, new_place) == (len(before), len(after))
    assert made == [*after]
    return kept


@given(LINES, LINES)
def test_the_edits_make_one_of_the_other(before: list[str], after: list[str]):
    check(before, after)


@given(LINES, st.integers(0, 150), LINES)
def test_an_insertion_is_one_edit(before: list[str], place: int, more: list[str]):
    added = [f"new {one}" for one in more]
    after = [*before[:place], *added, *before[place:]]
    assert check(before, after) == len(before)
    assert [kind for kind, *_ in compare(before, after) if kind != "equal"] == ["insert"] * bool(added)


UNIQUE = [f"line {number}" for number in range(20_000)]


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (UNIQUE, UNIQUE[::2] + UNIQUE[1::2], 10_001),
        (UNIQUE, [one if place % 2 else f"new {place}" for place, one in enumerate(UNIQUE)], 10_000),
        (UNIQUE, UNIQUE[::-1], 1),
        (["a", "b"] * 10_000, ["b", "c"] * 10_000, 0),
        ([str(place % 100) for place in range(20_000)], [str(place % 99) for place in range(20_000)], 99),
        (["same"] * 20_000, ["same"] * 10_000, 10_000),
        ([], UNIQUE, 0),
        (UNIQUE, [], 0),
        ([], [], 0),
    ],
)
def test_large_texts_are_compared(before: list[str], after: list[str], kept: int):
    assert check(before, after) == kept
