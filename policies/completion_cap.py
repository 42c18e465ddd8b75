"""The effective completion cap is the smallest of the caps that apply, and a lower cap winning is no error.

Source: contract, "Endpoints" (effective completion cap).
"""

from typing import overload


@overload
def completion_cap(requested: int | None, hard_maximum: int, budget: int | None = None) -> int: ...


@overload
def completion_cap(
    requested: int | None, hard_maximum: int | None, budget: int | None = None
) -> int | None: ...


def completion_cap(requested: int | None, hard_maximum: int | None, budget: int | None = None) -> int | None:
    """Return the outbound cap in tokens: the minimum of those that are set, None where none is.

    ``requested`` is the client's smaller cap (None: it set none), ``hard_maximum`` the catalog's (None: the model
    is not in it), ``budget`` what overage protection leaves on platform-metered traffic (None: it does not apply).
    """
    return min((cap for cap in (requested, hard_maximum, budget) if cap is not None), default=None)
