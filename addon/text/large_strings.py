"""Cuts long strings out of a JSON text before it is parsed. They go upstream as the bytes that came. Pure.

The beginning of each string stays, with a mark. No client can forge the mark: it holds a hash of all that is parsed.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from pydantic_core import from_json

from addon.text.json_scan import PIECE_BYTES
from policies.estimate import count_text
from policies.large_text import LargeText, TextCounts, TextRest

_BEGINNING_BYTES: Final = 2_048
_LONGEST_ESCAPE_BYTES: Final = 12
_BACKSLASH: Final = b"\\"


class LargeStrings:
    """The long strings of one JSON text. ``places`` has the start and end of each, inside the quotes."""

    def __init__(self, text: bytes, places: Sequence[tuple[int, int]]) -> None:
        self._text = memoryview(text)
        self._cuts = [(boundary(text, start, start + _BEGINNING_BYTES), end) for start, end in places]
        digest = hashlib.blake2b(digest_size=16)
        for piece in self._kept():
            digest.update(piece)
        self._mark = f"[text {digest.hexdigest()} "

    def skeleton(self) -> bytes:
        """Return the text with marks in place of the cut bytes."""
        kept = self._kept()
        pieces: list[bytes | memoryview] = [next(kept)]
        for index, piece in enumerate(kept):
            pieces += (self._mark_of(index).encode(), piece)
        return b"".join(pieces)

    def restore(self, text: bytes) -> bytes:
        """Return JSON text with the cut bytes in place of their marks."""
        first, *others = text.split(self._mark.encode())
        pieces: list[bytes | memoryview] = [first]
        for other in others:
            number, _, rest = other.partition(b"]")
            start, end = self._cuts[int(number)]
            pieces += (self._text[start:end], rest)
        return b"".join(pieces)

    def find(self, value: str) -> LargeText | None:
        """Return the long text of a parsed string with a mark, or None. Raises ValueError when its rest is invalid."""
        beginning, mark, number = value.rpartition(self._mark)
        if not mark:
            return None
        pieces = partial(self._pieces, *self._cuts[int(number.removesuffix("]"))])
        counts = TextCounts()
        for piece in pieces():
            counts = counts.plus(count_text(piece))
        return LargeText.of(beginning, mark + number, TextRest(counts, pieces))

    def offset(self, skeleton_offset: int) -> int:
        """Return the offset in the text of a byte of the skeleton."""
        at, removed = 0, 0
        for index, (start, end) in enumerate(self._cuts):
            at = start - removed
            if skeleton_offset < at:
                break
            removed += end - start - len(self._mark_of(index))
        return skeleton_offset + removed

    def _mark_of(self, index: int) -> str:
        return f"{self._mark}{index}]"

    def _kept(self) -> Iterator[memoryview]:
        at = 0
        for start, end in self._cuts:
            yield self._text[at:start]
            at = end
        yield self._text[at:]

    def _pieces(self, start: int, end: int) -> Iterator[str]:
        while start < end:
            piece_ends = min(boundary(self._text, start, start + PIECE_BYTES), end)
            piece: Any = from_json(b'"%b"' % bytes(self._text[start:piece_ends]), cache_strings=False)
            if not isinstance(piece, str):
                raise ValueError("a string that holds a quote")
            yield piece
            start = piece_ends


def boundary(text: bytes | memoryview, start: int, end: int) -> int:
    """Return the first offset from ``end`` on that is not inside a character or an escape.

    ``start`` is an earlier such offset in the same string.
    """
    if end >= len(text):
        return len(text)
    piece = bytes(text[start:end])
    at = piece.rfind(_BACKSLASH, max(0, len(piece) - _LONGEST_ESCAPE_BYTES))
    if at < 0:
        while end < len(text) and text[end] & 0xC0 == 0x80:
            end += 1
        return end
    run = at + 1 - len(piece[: at + 1].rstrip(_BACKSLASH))
    if run % 2 == 0:
        return start + at + 1
    escape = bytes(text[start + at : start + at + _LONGEST_ESCAPE_BYTES])
    if escape[1:2] != b"u":
        return start + at + 2
    is_high = escape[2:4].lower() in (b"d8", b"d9", b"da", b"db")
    return start + at + (12 if is_high and escape[6:8] == b"\\u" else 6)
