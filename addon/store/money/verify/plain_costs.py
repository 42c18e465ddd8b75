"""A condition of SQL that finds most of the calls whose costs are right, so that few have to be computed here. Pure.

It covers calls of text alone, at sets of prices that the amounts of such a call decide. It is never true of a call
whose cost is wrong: all others are computed by ``policies.money``.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from policies.price_set import PriceSet
from policies.prices import Prices

MAX_SETS: Final = 1_000
"""How many sets the condition knows."""
_MOST_TOKENS: Final = 100_000_000
_HIGHEST_PRICE: Final = 1_000_000_000
"""In micro-USD per million. With so many tokens, no product leaves 64 bits."""

_PRICED: Final = ("input", "cached_input", "cache_write", "output")
_COLUMNS: Final = (
    *("name", "most_prompt_tokens", "has_services", "is_reported"),
    *(f"{side}_{kind}" for side in ("wholesale", "retail") for kind in _PRICED),
)
_NOTHING: Final = " AND ".join(
    f"coalesce({name}, 0) = 0"
    for name in (
        *("cache_write_1h_tokens", "audio_input_tokens", "cached_audio_tokens", "image_input_tokens"),
        *("audio_output_tokens", "searches"),
    )
)
_PROMPT, _CACHED, _WRITTEN, _OUTPUT = (
    f"coalesce({name}_tokens, 0)" for name in ("prompt", "cached", "cache_write", "completion")
)


def _cost(side: str) -> str:
    """Return the SQL of a cost in nano-USD: a sum of pico-USD, rounded half up."""
    amounts = (f"({_PROMPT} - {_CACHED} - {_WRITTEN})", _CACHED, _WRITTEN, _OUTPUT)
    picousd = " + ".join(f"{amount} * {side}_{kind}" for amount, kind in zip(amounts, _PRICED, strict=True))
    return f"({picousd} + 500) / 1000"


# The parts of a CASE are computed in turn, so nothing is multiplied that is not bounded.
IS_PLAINLY_RIGHT: Final = f"""
    CASE
        WHEN mode = 'byok' THEN price_set IS NULL AND wholesale_nanousd = 0 AND retail_nanousd = 0
        WHEN sets.name IS NULL OR mode <> 'payg' THEN FALSE
        WHEN {_PROMPT} NOT BETWEEN 0 AND most_prompt_tokens THEN FALSE
        WHEN {_OUTPUT} NOT BETWEEN 0 AND {_MOST_TOKENS} THEN FALSE
        WHEN {_CACHED} NOT BETWEEN 0 AND {_PROMPT} THEN FALSE
        WHEN {_WRITTEN} NOT BETWEEN 0 AND {_PROMPT} - {_CACHED} THEN FALSE
        WHEN completion_tokens IS NULL AND coalesce(total_tokens, 0) > {_PROMPT} THEN FALSE
        WHEN has_services = 1 AND service_tier IS NOT NULL THEN FALSE
        WHEN is_reported = 1 AND reported_nanousd IS NOT NULL THEN FALSE
        WHEN {_NOTHING} THEN wholesale_nanousd = {_cost("wholesale")} AND retail_nanousd = {_cost("retail")}
        ELSE FALSE
    END
"""
"""The condition for a row of ``usage`` that ``sets`` is joined to by the name of its set. It may be NULL."""


def write_sets(sets: Mapping[str, PriceSet | None]) -> str:
    """Return the SQL of a table ``sets`` with the sets of which a call may be plain."""
    rows = [_row(name, one) for name, one in sets.items() if one is not None and _is_plain(one)]
    listed = ", ".join(rows[:MAX_SETS] or [f"('', {', '.join('0' * (len(_COLUMNS) - 1))})"])
    return f"sets ({', '.join(_COLUMNS)}) AS (VALUES {listed})"


def _row(name: str, one: PriceSet) -> str:
    sides = (one.wholesale, one.retail)
    bounds = [tier.above_prompt_tokens for side in sides for tier in side.tiers]
    numbers = (
        min([*bounds, _MOST_TOKENS]),
        int(any(side.service_tiers for side in sides)),
        int(one.cost == "reported"),
        *(side.price_of(kind) for side in sides for kind in _PRICED),
    )
    assert name.isalnum()  # noqa: S101  (it is a hash, as its set was read)
    return f"('{name}', {', '.join(map(str, numbers))})"


def _is_plain(one: PriceSet) -> bool:
    """Return whether the reasoning of a call costs what its output does, and a call itself nothing."""
    return not one.reasoning_beside and all(map(_is_plain_side, (one.wholesale, one.retail)))


def _is_plain_side(prices: Prices) -> bool:
    kinds: Iterable[int] = (prices.price_of(kind) for kind in _PRICED)
    return (
        prices.price_of("reasoning") == prices.price_of("output")
        and prices.price_of("per_call") == 0
        and all(0 <= price <= _HIGHEST_PRICE for price in kinds)
    )
