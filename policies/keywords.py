"""Keywords as whole words of a text, in time linear in the text.

Case (Unicode case folding) and white space between words do not matter. A keyword does not begin or end inside a word:
no letter, digit, underscore or combining mark is next to another one there. Chinese, Japanese, Thai, Lao, Khmer and
Burmese have no spaces between words, so keywords of these scripts are found anywhere. Source: Unicode Standard Annex
29, "Word Boundaries", simplified.

Words of texts and keywords are marked: a line feed is at both ends of each. So a plain search finds whole words only,
and no keyword needs a compiled pattern. A gateway may have ten thousand rules, and such a pattern takes milliseconds to
compile.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from types import MappingProxyType
from typing import Final

_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # ideographs
)
_JOINERS: Final = "\u200c\u200d"
_WORD_OF_ASCII: Final = re.compile(r"\w++", re.ASCII)
_MARKED: Final = "\n\\g<0>\n"


class RuleText:
    """A text as keywords are searched in it. Its words are marked only if a keyword is anywhere in it."""

    def __init__(self, text: str) -> None:
        self.spaced = _space(text)

    @cached_property
    def marked(self) -> str:
        """The text with a line feed at both ends of each word."""
        return _mark_words(self.spaced)


@dataclass(frozen=True, slots=True)
class Keywords:
    """The keywords of one rule. ``written`` maps each marked keyword to the operator's spelling."""

    spaced: frozenset[str]
    written: Mapping[str, str]

    def find_in(self, text: RuleText) -> str | None:
        """Return the first keyword in a text, in the operator's spelling; None without any.

        Of several at the same place, return the longest one.
        """
        if not any(map(text.spaced.__contains__, self.spaced)):
            return None
        found = [
            (place, -len(keyword), keyword)
            for keyword in self.written
            if (place := text.marked.find(keyword)) >= 0
        ]
        return self.written[min(found)[2]] if found else None


@lru_cache(maxsize=4096)
def make_keywords(keywords: tuple[str, ...]) -> Keywords:
    """Return ``keywords``, ready to be found. Each has at least one character that is not white space."""
    # A text may have an accent as a character of its own or not. Both spellings are searched, because normalizing the
    # text takes quadratic time where a client repeats combining marks.
    spaced = {
        _space(unicodedata.normalize(form, keyword)): keyword
        for form in ("NFD", "NFC")
        for keyword in reversed(keywords)
    }
    written = {_mark_words(text): keyword for text, keyword in spaced.items()}
    return Keywords(frozenset(spaced), MappingProxyType(written))


@dataclass(frozen=True, slots=True)
class PolicyKeywords:
    """Keywords for operators' own policies. They are searched in plain case-folded texts."""

    keywords: Keywords

    def find_in(self, folded: str) -> str | None:
        """Return the first keyword in a text, as ``Keywords.find_in`` does."""
        return self.keywords.find_in(RuleText(folded))


def compile_keywords(keywords: tuple[str, ...]) -> PolicyKeywords:
    """Return keywords for an operator's own policy. docs/policies.md promises that this stays as it is."""
    return PolicyKeywords(make_keywords(keywords))


def _space(text: str) -> str:
    """Return a case-folded text with one space in place of all white space."""
    return " ".join(text.casefold().split())


def _mark_words(spaced: str) -> str:
    return (_WORD_OF_ASCII if spaced.isascii() else _word()).sub(_MARKED, spaced)


@cache
def _word() -> re.Pattern[str]:
    """Return the pattern of a word: letters, digits, underscores, joiners and combining marks."""
    marks = "".join(
        chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)).startswith("M")
    )
    return re.compile(f"(?:[^\\W{_UNSPACED}]++|[{_JOINERS}{_ranges(marks)}]++)++")


def _ranges(characters: str) -> str:
    """Return ``characters`` as ranges of a character set, which is a hundred times shorter and faster to compile."""
    runs: list[list[str]] = []
    for character in characters:
        if runs and ord(character) == ord(runs[-1][1]) + 1:
            runs[-1][1] = character
        else:
            runs.append([character, character])
    return "".join(f"{first}-{last}" for first, last in runs)
