"""Which counts of a provider are believed: a slip of its software must not empty a wallet.

A count is not believed when it is negative or no finite number, or more than ten times what the model could make. A
client's own cap is no measure: providers overrun it.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Final

from policies.model import Model, Usage

UNBELIEVABLE: Final = -1
"""Stands for a count that is no number of tokens at all."""

FACTOR: Final = 10
ORDINARY_PROMPT_TOKENS: Final = 20_000_000
"""No prompt below it is looked at twice: ten times the largest context window there is."""


def believe(
    counted: Usage, model: Model, choices: int, estimate_prompt: Callable[[], int]
) -> tuple[Usage, tuple[str, ...]]:
    """Return the counts that are believed, and the names of those that are not, which are None.

    ``estimate_prompt`` returns the estimate of the prompt; it is asked where a count is beyond all that is ordinary.
    """
    most_output = _most_output_tokens(model, choices)
    most_prompt = ORDINARY_PROMPT_TOKENS
    if max(counted.prompt_tokens or 0, counted.total_tokens or 0) > most_prompt:
        most_prompt = max(most_prompt, FACTOR * estimate_prompt())
    bounds = {
        "prompt_tokens": most_prompt,
        "cached_tokens": most_prompt,
        "cache_write_tokens": most_prompt,
        "completion_tokens": most_output,
        "reasoning_tokens": most_output,
        "total_tokens": None if most_output is None else most_prompt + most_output,
    }
    disbelieved = tuple(
        one.name for one in fields(counted) if _is_absurd(getattr(counted, one.name), bounds[one.name])
    )
    return (replace(counted, **dict.fromkeys(disbelieved)) if disbelieved else counted), disbelieved


def _most_output_tokens(model: Model, choices: int) -> int | None:
    if model.max_completion_tokens is None:
        return None
    return FACTOR * (model.max_completion_tokens + model.family.uncapped_completion_tokens) * choices


def _is_absurd(count: int | None, most: int | None) -> bool:
    return count is not None and (count < 0 or (most is not None and count > most))
