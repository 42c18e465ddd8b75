"""The effective completion cap: the smallest of the caps that apply. A lower cap that wins is no error.

Source: contract, "Endpoints" (effective completion cap).
"""

from collections.abc import Callable
from typing import Final, overload

from policies.family import Family
from policies.model import Model

LEAST_WINDOW_CAP_TOKENS: Final = 256
"""The lowest cap that a window gives: an estimate must not refuse a prompt that may fit."""


@overload
def find_completion_cap(requested: int | None, hard_maximum: int, budget: int | None = None) -> int: ...


@overload
def find_completion_cap(
    requested: int | None, hard_maximum: int | None, budget: int | None = None
) -> int | None: ...


def find_completion_cap(
    requested: int | None, hard_maximum: int | None, budget: int | None = None
) -> int | None:
    """Return the outbound cap in tokens: the smallest of the given caps, None without any.

    | cap | is | None |
    |---|---|---|
    | ``requested`` | the client's smaller cap | it set none |
    | ``hard_maximum`` | the catalog's maximum | the model is outside the catalog |
    | ``budget`` | the tokens that overage protection allows on platform-metered traffic | it does not apply |
    """
    caps = [cap for cap in (requested, hard_maximum, budget) if cap is not None]
    return min(caps, default=None)


def find_window_cap(
    model: Model, cap_tokens: int | None, body_bytes: int, estimate_prompt: Callable[[], int]
) -> int | None:
    """Return what the window of ``model`` leaves for a completion, in tokens, None where it bounds nothing.

    That is so where the vendor counts only the prompt, and where the cap fits beside any text of ``body_bytes``: no
    token has less than a byte. Only then is the prompt not estimated. ``cap_tokens`` is the client's cap, or a lower
    one of operators' policies.
    """
    window = model.context_window
    if window is None or not model.family.cap_within_window:
        return None
    cap = find_completion_cap(cap_tokens, model.max_completion_tokens)
    if cap is not None and window - body_bytes >= cap:
        return None
    return max(window - estimate_prompt(), LEAST_WINDOW_CAP_TOKENS)


def needs_stream(family: Family, cap_tokens: int | None) -> bool:
    """Return whether a completion with this cap is answered as a stream only."""
    most_tokens = family.max_whole_completion_tokens
    return most_tokens is not None and cap_tokens is not None and cap_tokens > most_tokens
