"""``compare``: which entries of two sequences are equal, in bounded time. Pure.

``difflib`` alone takes minutes for two files of 20,000 lines where every second line differs.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal

type Edit = tuple[Literal["equal", "replace", "delete", "insert"], int, int, int, int]
"""An edit as ``difflib`` has it: the entries that it takes away, from and up to, and those that it puts there."""

MAX_PAIRS: Final = 4096
"""Parts of so many pairs of entries are compared pair by pair. A larger part without entries to align is replaced."""
MAX_LEVELS: Final = 8
"""How often a part is split at entries that occur once in it."""


def compare(before: Sequence[str], after: Sequence[str]) -> list[Edit]:
    """Return the edits that make ``before`` to ``after``, in their order. They are few, but not always the fewest."""
    pairs = [*_match(before, after, 0, 0, MAX_LEVELS), (len(before), len(after))]
    edits: list[Edit] = []
    old = new = 0
    for i, j in pairs:
        if i > old or j > new:
            kind: Literal["replace", "delete", "insert"]
            kind = "insert" if i == old else "delete" if j == new else "replace"
            edits.append((kind, old, i, new, j))
        elif edits and edits[-1][0] == "equal" and i < len(before):
            _, start, _, new_start, _ = edits.pop()
            edits.append(("equal", start, i + 1, new_start, j + 1))
            old, new = i + 1, j + 1
            continue
        if i < len(before):
            edits.append(("equal", i, i + 1, j, j + 1))
        old, new = i + 1, j + 1
    return edits


def _match(
    before: Sequence[str], after: Sequence[str], old: int, new: int, levels: int
) -> Iterator[tuple[int, int]]:
    """Yield the places of equal entries in their order; ``old`` and ``new`` are added to them."""
    start, end, end_after = 0, len(before), len(after)
    while start < min(end, end_after) and before[start] == after[start]:
        yield old + start, new + start
        start += 1
    while min(end, end_after) > start and before[end - 1] == after[end_after - 1]:
        end, end_after = end - 1, end_after - 1
    yield from _match_middle(before[start:end], after[start:end_after], old + start, new + start, levels)
    yield from zip(range(old + end, old + len(before)), range(new + end_after, new + len(after)), strict=True)


def _match_middle(
    before: Sequence[str], after: Sequence[str], old: int, new: int, levels: int
) -> Iterator[tuple[int, int]]:
    if len(before) * len(after) <= MAX_PAIRS:
        for i, j, size in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
            yield from zip(range(old + i, old + i + size), range(new + j, new + j + size), strict=True)
        return
    anchors = _find_anchors(before, after)
    if not anchors or not levels:
        return
    last_i = last_j = 0
    for i, j in anchors:
        yield from _match(before[last_i:i], after[last_j:j], old + last_i, new + last_j, levels - 1)
        yield old + i, new + j
        last_i, last_j = i + 1, j + 1
    yield from _match(before[last_i:], after[last_j:], old + last_i, new + last_j, levels - 1)


def _find_anchors(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places of entries that occur once in both, as many as have the same order in both."""
    once = {one for one, count in Counter(before).items() if count == 1}
    once &= {one for one, count in Counter(after).items() if count == 1}
    places = {one: place for place, one in enumerate(after) if one in once}
    found = [(i, places[one]) for i, one in enumerate(before) if one in once]
    # The longest rising run of places: ``tails`` has the smallest last place of a run of each length.
    tails: list[int] = []
    chain: list[int] = []
    previous: list[int] = []
    for number, (_, j) in enumerate(found):
        length = bisect_left(tails, j)
        tails[length : length + 1] = [j]
        chain[length : length + 1] = [number]
        previous.append(chain[length - 1] if length else -1)
    anchors = []
    number = chain[-1] if chain else -1
    while number >= 0:
        anchors.append(found[number])
        number = previous[number]
    return anchors[::-1]
