"""``OutputMedians``: how long the answers of each model usually are, as this process saw them. No I/O."""

from collections import OrderedDict, deque
from statistics import median_low
from typing import Final

from msgspec import Struct

from policies.exchange import Exchange
from policies.token_limits import LEAST_ANSWERS

KEPT_ANSWERS: Final = 101
"""How many answers of a model count: the last ones."""
MAX_MODELS: Final = 1_000
"""How many models are known: those that were called last. Names outside the catalog have no bound."""


class _Answers(Struct):
    """The completion tokens of a model's last answers, and their median, None while it has to be found again."""

    tokens: deque[int]
    median: int | None = None


class OutputMedians:
    """The medians of models, by slug. Only calls with a limit of tokens a minute need them, so only these are noted."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, _Answers] = OrderedDict()

    def note(self, ended: Exchange) -> None:
        """Note the answer of a call that ended, if its provider counted it."""
        tokens, slug = ended.usage.completion_tokens, ended.target.model.slug
        if not tokens or ended.usage_source != "provider":
            return
        answers = self._answers.setdefault(slug, _Answers(deque(maxlen=KEPT_ANSWERS)))
        answers.tokens.append(tokens)
        answers.median = None
        self._answers.move_to_end(slug)
        if len(self._answers) > MAX_MODELS:
            self._answers.popitem(last=False)

    def find(self, slug: str) -> int | None:
        """Return the median of the completion tokens of a model's answers, None while too few are known."""
        answers = self._answers.get(slug)
        if answers is None or len(answers.tokens) < LEAST_ANSWERS:
            return None
        if answers.median is None:
            answers.median = median_low(answers.tokens)
        return answers.median
