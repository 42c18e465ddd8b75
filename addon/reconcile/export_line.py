"""``ExportLine``: one line of a vendor's export, the same for all vendors. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

KINDS: Final = ("input", "cached_input", "cache_write", "output")
"""The kinds of ``Tokens``, in their order."""

LONG_CONTEXT: Final = "long context"
LONG_CACHE: Final = "1h cache"
"""Names of tiers that vendors write in several ways."""

_NORMAL_TIERS: Final = frozenset(
    {"", "default", "standard", "auto", "on_demand", "message", "token", "not_available", "unlabeled"}
)


class ExportError(Exception):
    """The reason why a file can't be read: where in it, what is wrong, and what to do. It does not name the file."""


class Tokens(NamedTuple):
    """Counts of tokens by what they cost. The input has neither what was cached nor what was written into a cache."""

    input: int = 0
    cached_input: int = 0
    cache_write: int = 0
    output: int = 0

    def plus(self, other: "Tokens", times: int = 1) -> "Tokens":
        """Return the sums, with ``other`` counted so many times."""
        return Tokens(*(one + times * more for one, more in zip(self, other, strict=True)))

    @classmethod
    def of_kind(cls, kind: str, count: int) -> Self:
        """Return ``count`` tokens of one kind."""
        return cls(**{kind: count})

    @property
    def prompt(self) -> int:
        """All tokens of prompts."""
        return self.input + self.cached_input + self.cache_write


NO_TOKENS: Final = Tokens()


@dataclass(frozen=True, slots=True)
class ExportLine:
    """What a vendor counted or charged for a day, or a month. What it does not say is None.

    | field | is |
    |---|---|
    | ``day`` | a day of the vendor's, 2026-10-14, or a month, 2026-10 |
    | ``key`` | the vendor's name for the key |
    | ``tier`` | the service or price tier, None for the normal one |
    | ``kind`` | the one of ``KINDS`` that the cost is for, None for all |
    | ``rounding_nanousd`` | by how much the vendor may have rounded the cost |
    | ``is_tool`` | whether the cost is for searches and the like, and for no token |
    | ``splits_input`` | whether the counts say which input was cached |
    """

    day: str
    model: str | None = None
    key: str | None = None
    tier: str | None = None
    kind: str | None = None
    tokens: Tokens | None = None
    cost_nanousd: int | None = None
    requests: int | None = None
    rounding_nanousd: int = 1
    is_tool: bool = False
    splits_input: bool = True


@dataclass(frozen=True, slots=True)
class Export:
    """The lines of one file.

    | field | is |
    |---|---|
    | ``days`` | the days that the file is about, also those without a line |
    | ``time_zone`` | the time zone of the vendor's days |
    | ``has_more`` | whether the answer of an API says that another page follows |
    """

    format: str
    lines: Sequence[ExportLine]
    days: frozenset[str]
    time_zone: str = "UTC"
    has_more: bool = False


def name_tier(*names: str | None) -> str | None:
    """Return the names of tiers as one, None where all are normal."""
    found = [name.strip().lower() for name in names if name]
    special = [name for name in found if name not in _NORMAL_TIERS]
    return " ".join(dict.fromkeys(special)) or None
