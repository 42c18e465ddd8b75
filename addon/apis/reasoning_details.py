"""``reasoning_details`` of several items or blocks as those of one message. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, groupby
from typing import Any

type Details = list[dict[str, Any]]


def number_details(found: Sequence[Details]) -> Iterator[dict[str, Any]]:
    """Yield all details with indexes of one row. Pieces of one detail, which follow each other, keep the same index."""
    index = count()
    for details in found:
        places = [(detail.get("index", -1 - at), detail) for at, detail in enumerate(details)]
        for _, pieces in groupby(places, key=_index):
            number = next(index)
            yield from ({**detail, "index": number} for _, detail in pieces)


def _index(pair: tuple[int, Mapping[str, Any]]) -> int:
    return pair[0]
