"""Texts of others, made harmless for terminals and pages. Pure."""

import re
from typing import Final

_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that are printable for Python and that no one sees. Not those that choose how an emoji looks."""


def escape_unprintable(text: str) -> str:
    """Show each unprintable or invisible character but line ends as an escape such as ``\\x1b``.

    Text of others must not control where it is shown: no colour, no cursor, no change of the writing direction.
    """
    if text.replace("\n", "").isprintable() and not _INVISIBLE.search(text):
        return text
    return "".join(char if _is_visible(char) else char.encode("unicode_escape").decode() for char in text)


def escape_line(text: str) -> str:
    """Return a text as ``escape_unprintable`` does, on one line."""
    return escape_unprintable(text).replace("\n", r"\n")


def _is_visible(char: str) -> bool:
    return char == "\n" or (char.isprintable() and not _INVISIBLE.match(char))
