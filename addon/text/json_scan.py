"""Measures JSON text before it is parsed: its values, its depth, and the places of its long strings. Pure.

Only text outside strings counts. Each step is one C function over a piece of the text, so no text blocks the
interpreter for long, and none is decoded. The scan does not check that the text is JSON; the parser does.
"""

import codecs
import re
from dataclasses import dataclass, field
from typing import Final

MAX_VALUES: Final = 250_000
MAX_DEPTH: Final = 64
LARGE_STRING_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 1 << 20

_BACKSLASH: Final = 0x5C
_KEY_END: Final = re.compile(rb'"[ \t\r\n]*+:')
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_AS_SQUARE: Final = bytes.maketrans(b"{}", b"[]")


class TooManyValuesError(ValueError):
    """The text has more than ``MAX_VALUES`` values."""


class TooDeepError(ValueError):
    """The text is nested deeper than ``MAX_DEPTH`` levels."""


@dataclass(slots=True)
class Scan:
    """The result of a scan.

    ``members`` is the number of members of all objects. ``large`` has the start and end of each long value, inside its
    quotes.
    """

    members: int = 0
    large: list[tuple[int, int]] = field(default_factory=list)


def scan(text: bytes, max_values: int = MAX_VALUES) -> Scan:
    """Measure ``text``.

    Raises TooDeepError, TooManyValuesError, or UnicodeDecodeError with the offset of the bytes that are not UTF-8.
    """
    found = Scan()
    brackets: list[bytes] = []
    values, at, opened_at = 1, 0, -1
    decoder = None if text.isascii() else _Utf8(text)
    while at < len(text):
        end = piece_end(text, at)
        if decoder:
            decoder.read_to(end)
        parts = _outside_escapes(text[at:end]).split(b'"')
        structure = b"".join(parts[opened_at >= 0 :: 2])
        values += structure.count(b",") + structure.count(b"[") + structure.count(b"{")
        found.members += structure.count(b":")
        brackets.append(structure.translate(_AS_SQUARE, _NOT_BRACKETS))
        if values > max_values:
            check_depth(b"".join(brackets))
            raise TooManyValuesError
        opened_at = _note_large(text, at, parts, opened_at, found.large)
        at = end
    check_depth(b"".join(brackets))
    return found


def count_members(text: bytes) -> int:
    """Return the number of members of all objects in a text of one piece. Raises TooDeepError."""
    structure = b"".join((_outside_escapes(text) if b"\\" in text else text).split(b'"')[::2])
    if structure.count(b"[") + structure.count(b"{") > MAX_DEPTH:
        check_depth(structure.translate(_AS_SQUARE, _NOT_BRACKETS))
    return structure.count(b":")


def piece_end(text: bytes | memoryview, start: int) -> int:
    """Return the end of the piece that begins at ``start``. It never splits an escape."""
    end = min(start + PIECE_BYTES, len(text))
    if end < len(text) and text[end - 1] == _BACKSLASH:
        piece = bytes(text[start:end])
        end += (len(piece) - len(piece.rstrip(b"\\"))) % 2
    return end


def check_depth(brackets: bytes) -> None:
    """Raise TooDeepError where square brackets are nested deeper than ``MAX_DEPTH``, closed or not."""
    for _ in range(MAX_DEPTH):
        if not (inner := brackets.replace(b"[]", b"")) or len(inner) == len(brackets):
            brackets = inner
            break
        brackets = inner
    if b"[]" in brackets or brackets.count(b"[") > MAX_DEPTH:
        raise TooDeepError


def _outside_escapes(piece: bytes) -> bytes:
    """Return the piece with its escapes overwritten, so that every quote begins or ends a string."""
    if b"\\" not in piece:
        return piece
    piece = piece.replace(b"\\\\", b"..") if b"\\\\" in piece else piece
    return piece.replace(b'\\"', b"..")


def _note_large(
    text: bytes, at: int, parts: list[bytes], opened_at: int, large: list[tuple[int, int]]
) -> int:
    """Note the long strings that end in a piece. Return the start of the string that is still open, or -1."""
    if opened_at >= 0 and len(parts) > 1:
        _note(text, opened_at, at + len(parts[0]), large)
    is_open = (opened_at >= 0) == (len(parts) % 2 == 1)
    if max(map(len, parts)) >= LARGE_STRING_BYTES:
        offset = at
        for index, part in enumerate(parts[:-1]):
            if index and (index % 2 == 1) != (opened_at >= 0):
                _note(text, offset, offset + len(part), large)
            offset += len(part) + 1
    if not is_open:
        return -1
    return opened_at if len(parts) == 1 else at + sum(map(len, parts[:-1])) + len(parts) - 1


def _note(text: bytes, start: int, end: int, large: list[tuple[int, int]]) -> None:
    if end - start >= LARGE_STRING_BYTES and not _KEY_END.match(text, end):
        large.append((start, end))


class _Utf8:
    """Checks piece by piece that a text is UTF-8. It keeps no text."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._at = 0

    def read_to(self, end: int) -> None:
        """Raise UnicodeDecodeError, with the offset in the whole text, for bytes before ``end`` that are not UTF-8."""
        try:
            _, consumed = codecs.utf_8_decode(self._text[self._at : end], "strict", end == len(self._text))
        except UnicodeDecodeError as error:
            raise UnicodeDecodeError(
                "utf-8", b"", self._at + error.start, self._at + error.end, error.reason
            ) from None
        self._at += consumed
