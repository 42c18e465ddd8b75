"""A long text of a request, which is never held decoded: its beginning, its counts, and how to read the rest."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple


class TextCounts(NamedTuple):
    """What a text is made of, in bytes of UTF-8 by kind; see ``estimate.count_text``. ``chars`` is its length."""

    letters: int = 0
    marks: int = 0
    other_bytes: int = 0
    chars: int = 0

    def plus(self, other: "TextCounts") -> "TextCounts":
        """Return the counts of both texts together."""
        return TextCounts(*(one + two for one, two in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True)
class TextRest:
    """What follows the beginning of a long text: its counts, and ``pieces``, which decodes it anew each time."""

    counts: TextCounts
    pieces: Callable[[], Iterator[str]]


class LargeText(str):
    """A long text. As a string it is its beginning, followed by a mark that stands for ``rest``.

    It passes for the whole text wherever nobody looks beyond the beginning. When the request is sent, the bytes that
    the client wrote stand in place of the mark.
    """

    rest: TextRest
    beginning: str

    @classmethod
    def of(cls, beginning: str, mark: str, rest: TextRest) -> "LargeText":
        """Return the text that begins so."""
        made = cls(beginning + mark)
        made.beginning, made.rest = beginning, rest
        return made

    def first(self, chars: int) -> str:
        """Return the first ``chars`` characters of the text, decoded."""
        found = [self.beginning]
        missing = chars - len(self.beginning)
        pieces = self.rest.pieces()
        while missing > 0 and (piece := next(pieces, None)) is not None:
            found.append(piece)
            missing -= len(piece)
        return "".join(found)[:chars]


def first_chars(text: str, chars: int) -> str:
    """Return the first ``chars`` characters of ``text``, decoded where it is a long one."""
    return text.first(chars) if isinstance(text, LargeText) else text[:chars]


def whole_text(text: str) -> str:
    """Return ``text``, decoded where it is a long one."""
    return first_chars(text, sys.maxsize)


def larges_in(value: object) -> Iterator[LargeText]:
    """Yield the long texts in a JSON value."""
    if isinstance(value, LargeText):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from larges_in(member)
