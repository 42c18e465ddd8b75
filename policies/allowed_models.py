"""The models that one API key may use, as the patterns of its ``models``, and how slugs are compared.

A pattern is a slug, or the beginning of slugs followed by ``*``. Source: docs/configuration.md.
"""

from dataclasses import dataclass, field
from string import ascii_lowercase, ascii_uppercase
from typing import Final

# ASCII letters only: Unicode folds some others, such as the kelvin sign, to ASCII letters.
_LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
_BLANKS: Final = " \t\r\n"
_MAX_SHOWN: Final = 8


def fold_slug(name: str) -> str:
    """Return a slug in its common spelling: ASCII letters in lower case, without blanks around it."""
    return name.strip(_BLANKS).translate(_LOWER)


@dataclass(frozen=True, slots=True)
class AllowedModels:
    """The patterns of one key. Case does not matter, as for the names that clients give."""

    patterns: tuple[str, ...]
    _slugs: frozenset[str] = field(init=False, repr=False, compare=False)
    _prefixes: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        folded = [fold_slug(pattern) for pattern in self.patterns]
        object.__setattr__(self, "_slugs", frozenset(one for one in folded if not one.endswith("*")))
        object.__setattr__(self, "_prefixes", tuple(one[:-1] for one in folded if one.endswith("*")))

    def allows(self, slug: str) -> bool:
        """Return whether a pattern matches ``slug``."""
        folded = fold_slug(slug)
        return folded in self._slugs or folded.startswith(self._prefixes)

    def __str__(self) -> str:
        shown = ", ".join(self.patterns[:_MAX_SHOWN])
        more = len(self.patterns) - _MAX_SHOWN
        return f"{shown} and {more} more" if more > 0 else shown
