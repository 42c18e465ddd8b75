"""Keywords as whole words of a text: one compiled pattern for each rule, in time linear in the text.

Case (Unicode case folding) and white space between words do not matter. A keyword does not begin or end inside a word:
no letter, digit, underscore or combining mark is next to another one there. Chinese, Japanese, Thai, Lao, Khmer and
Burmese have no spaces between words, so keywords of these scripts are found anywhere. Source: Unicode Standard Annex
29, "Word Boundaries", simplified.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from types import MappingProxyType
from typing import Final

_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # ideographs
)
_JOINERS: Final = "\u200c\u200d"


@dataclass(frozen=True, slots=True)
class Keywords:
    """The keywords of one rule, compiled. ``written`` maps the text that is found to the operator's spelling."""

    pattern: re.Pattern[str]
    written: Mapping[str, str]

    def find_in(self, folded: str) -> str | None:
        """Return the first keyword in a case-folded text, in the operator's spelling; None without any."""
        found = self.pattern.search(folded)
        return self.written[_spaced(found[0])] if found else None


@lru_cache(maxsize=4096)
def compile_keywords(keywords: tuple[str, ...]) -> Keywords:
    """Return compiled ``keywords``. Each has at least one character that is not white space."""
    # A text may have an accent as a character of its own or not. The pattern has both spellings, because normalizing
    # the text takes quadratic time where a client repeats combining marks.
    written = {
        _spaced(unicodedata.normalize(form, keyword).casefold()): keyword
        for form in ("NFD", "NFC")
        for keyword in reversed(keywords)
    }
    by_guards = groupby(sorted(written, key=_guards), key=_guards)
    pattern = "|".join(_pattern_of(list(words), *guards) for guards, words in by_guards)
    return Keywords(re.compile(pattern), MappingProxyType(written))


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _guards(word: str) -> tuple[bool, bool]:
    """Return whether the beginning and the end of a keyword could be inside a longer word."""
    return bool(_joining().match(word[0])), bool(_joining().match(word[-1]))


def _pattern_of(words: list[str], guards_start: bool, guards_end: bool) -> str:
    """Return a pattern that begins with a set of characters. A search for it is much faster than for a look-behind."""
    rests: dict[str, list[str]] = {}
    for word in words:
        rests.setdefault(word[0], []).append(word[1:])
    heads = f"[{''.join(map(re.escape, rests))}]"
    start = f"(?<!{_joining().pattern}{heads})" if guards_start else ""
    end = f"(?!{_joining().pattern})" if guards_end else ""
    branches = (f"(?<={re.escape(head)})(?:{_any_of(tails)})" for head, tails in rests.items())
    return f"{heads}{start}(?:{'|'.join(branches)}){end}"


def _any_of(tails: Iterable[str]) -> str:
    return "|".join(r"\s++".join(map(re.escape, tail.split(" "))) for tail in tails)


@cache
def _joining() -> re.Pattern[str]:
    """Return the pattern of one character that makes a word longer."""
    marks = "".join(
        chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)).startswith("M")
    )
    return re.compile(f"(?:[^\\W{_UNSPACED}]|[{_JOINERS}{_ranges(marks)}])")


def _ranges(characters: str) -> str:
    """Return ``characters`` as ranges of a character set, which is a hundred times shorter and faster to compile."""
    runs: list[list[str]] = []
    for character in characters:
        if runs and ord(character) == ord(runs[-1][1]) + 1:
            runs[-1][1] = character
        else:
            runs.append([character, character])
    return "".join(f"{first}-{last}" for first, last in runs)
