"""The effective completion cap: the smallest of the caps that apply. A lower cap that wins is no error.

Source: contract, "Endpoints" (effective completion cap).
"""

from typing import overload


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
