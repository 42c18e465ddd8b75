"""Plausible counts of a provider. An error in its software must not empty a wallet.

A count is implausible when it is negative, not a finite number, or more than ten times what the model could make. The
client's own cap does not matter, because providers overrun it.
"""

from collections.abc import Callable
from typing import Final

from msgspec import structs

from policies.model import Model
from policies.money import MAX_CAP_USD, NANOUSD
from policies.usage import Usage

NOT_A_COUNT: Final = -1
"""The value of a count that is no number of tokens at all."""

FACTOR: Final = 10
MAX_SEARCHES: Final = 10_000
"""No provider makes as many for one call."""
ORDINARY_PROMPT_TOKENS: Final = 20_000_000
"""No prompt below this is checked against its estimate: ten times the largest context window there is."""


def keep_plausible(
    counted: Usage, model: Model, count_choices: Callable[[], int], estimate_prompt: Callable[[], int]
) -> tuple[Usage, tuple[str, ...]]:
    """Return the counts with None for each implausible one, and the names of the implausible ones.

    ``count_choices`` returns how many choices were asked for, ``estimate_prompt`` the estimate of the prompt. Each is
    called only for an unusually large count.
    """
    counts = [count for count in structs.astuple(counted) if isinstance(count, int)]
    most_of_one_choice = _most_output_tokens(model, 1)
    smallest_bound = ORDINARY_PROMPT_TOKENS  # No bound of any count is below this.
    if most_of_one_choice is not None:
        smallest_bound = min(smallest_bound, most_of_one_choice)
    if not counts or (min(counts) >= 0 and max(counts) <= smallest_bound):
        return counted, ()
    bounds = _bounds(counted, _most_output_tokens(model, count_choices()), estimate_prompt)
    implausible = tuple(
        name for name, most in bounds.items() if _is_implausible(getattr(counted, name), most)
    )
    return structs.replace(counted, **dict.fromkeys(implausible)), implausible


def _bounds(
    counted: Usage, most_output: int | None, estimate_prompt: Callable[[], int]
) -> dict[str, int | None]:
    """Return the largest plausible value of each count, None where there is none."""
    most_prompt = ORDINARY_PROMPT_TOKENS
    if max(counted.prompt_tokens or 0, counted.total_tokens or 0) > most_prompt:
        most_prompt = max(most_prompt, FACTOR * estimate_prompt())
    return {
        "prompt_tokens": most_prompt,
        "completion_tokens": most_output,
        "total_tokens": None if most_output is None else most_prompt + most_output,
        "cached_tokens": most_prompt,
        "reasoning_tokens": most_output,
        "cache_write_tokens": most_prompt,
        "cache_write_1h_tokens": most_prompt,
        "audio_input_tokens": most_prompt,
        "cached_audio_tokens": most_prompt,
        "image_input_tokens": most_prompt,
        "audio_output_tokens": most_output,
        "searches": MAX_SEARCHES,
        "reported_nanousd": MAX_CAP_USD * NANOUSD,
    }


def _most_output_tokens(model: Model, choices: int) -> int | None:
    if model.max_completion_tokens is None:
        return None
    return FACTOR * (model.max_completion_tokens + model.family.uncapped_completion_tokens) * choices


def _is_implausible(count: int | None, most: int | None) -> bool:
    return count is not None and (count < 0 or (most is not None and count > most))
