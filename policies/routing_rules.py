"""A workspace's own rules of routing, as its file has them. All are frozen."""

from dataclasses import dataclass, field
from typing import Literal

from policies.keywords import Keywords, make_keywords

HeuristicWhen = Literal["images", "tools", "json", "prompt_tokens_above"]


@dataclass(frozen=True, slots=True)
class KeywordRule:
    """Whole words, in any case, that choose a model where the last user message has one of them.

    ``prepared`` is made of ``keywords``.
    """

    keywords: tuple[str, ...]
    model: str
    prepared: Keywords = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prepared", make_keywords(self.keywords))


@dataclass(frozen=True, slots=True)
class Heuristic:
    """A fact about the request that chooses a model. ``threshold_tokens`` is for ``prompt_tokens_above``."""

    when: HeuristicWhen
    model: str
    threshold_tokens: int | None = None
