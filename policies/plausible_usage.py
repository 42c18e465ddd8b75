"""Plausible counts of a provider. An error in its software must not empty a wallet.

A count is implausible when it is negative, not a finite number, or more than ten times what the model could make. The
client's own cap does not matter, because providers overrun it.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Final

from policies.model import Model, Usage

NOT_A_COUNT: Final = -1
"""The value of a count that is no number of tokens at all."""

FACTOR: Final = 10
ORDINARY_PROMPT_TOKENS: Final = 20_000_000
"""No prompt below this is checked against its estimate: ten times the largest context window there is."""


def keep_plausible(
    counted: Usage, model: Model, choices: int, estimate_prompt: Callable[[], int]
) -> tuple[Usage, tuple[str, ...]]:
    """Return the counts with None for each implausible one, and the names of the implausible ones.

    ``estimate_prompt`` returns the estimate of the prompt. It is called only for an unusually large count.
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
    implausible = tuple(
        one.name for one in fields(counted) if _is_implausible(getattr(counted, one.name), bounds[one.name])
    )
    return (replace(counted, **dict.fromkeys(implausible)) if implausible else counted), implausible


def _most_output_tokens(model: Model, choices: int) -> int | None:
    if model.max_completion_tokens is None:
        return None
    return FACTOR * (model.max_completion_tokens + model.family.uncapped_completion_tokens) * choices


def _is_implausible(count: int | None, most: int | None) -> bool:
    return count is not None and (count < 0 or (most is not None and count > most))
