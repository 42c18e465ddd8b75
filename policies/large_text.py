"""A long text of a request, which is never decoded as a whole: its beginning, its counts, and a reader of the rest."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import Struct


class TextCounts(Struct, frozen=True, gc=False):
    """The bytes of a text in UTF-8, by kind (see ``estimate.count_text``), and its length in characters."""

    letters: int = 0
    marks: int = 0
    other_bytes: int = 0
    chars: int = 0

    def plus(self, other: "TextCounts") -> "TextCounts":
        """Return the counts of both texts together."""
        return TextCounts(
            self.letters + other.letters,
            self.marks + other.marks,
            self.other_bytes + other.other_bytes,
            self.chars + other.chars,
        )


@dataclass(frozen=True, slots=True)
class TextRest:
    """The rest of a long text after its beginning: its counts, and ``pieces``, which decodes it again at each call."""

    counts: TextCounts
    pieces: Callable[[], Iterator[str]]


class LargeText(str):
    """A long text. As a string, it is the beginning of the text and a mark in place of ``rest``.

    It works as the whole text wherever code reads the beginning only. When the request is sent, the bytes of the client
    replace the mark.
    """

    rest: TextRest
    beginning: str

    @classmethod
    def of(cls, beginning: str, mark: str, rest: TextRest) -> "LargeText":
        """Return the long text of ``beginning`` and ``rest``."""
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


def prefixed(prefix: str, text: str) -> str:
    """Return ``text`` after ``prefix``; a long one stays long."""
    if not isinstance(text, LargeText):
        return prefix + text
    return LargeText.of(prefix + text.beginning, str(text)[len(text.beginning) :], text.rest)


def first_chars(text: str, chars: int) -> str:
    """Return the first ``chars`` characters of ``text``, decoded if it is a long one."""
    return text.first(chars) if isinstance(text, LargeText) else text[:chars]


def whole_text(text: str) -> str:
    """Return ``text``, decoded if it is a long one."""
    return first_chars(text, sys.maxsize)


def whole_value(value: Any) -> Any:
    """Return a JSON value with its long texts decoded: in JSON that is itself a text, they are escaped again."""
    if isinstance(value, LargeText):
        return whole_text(value)
    if isinstance(value, dict):
        return {name: whole_value(member) for name, member in value.items()}
    return [whole_value(item) for item in value] if isinstance(value, list) else value


def find_large_texts(value: object) -> Iterator[LargeText]:
    """Yield the long texts in a JSON value."""
    if isinstance(value, LargeText):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from find_large_texts(member)
