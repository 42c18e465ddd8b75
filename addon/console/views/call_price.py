"""The price of one call: its tokens at the prices that it had, and what was recorded. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from addon.text.table import Table
from policies.money import compute_call_costs_nanousd, count_billed, split_by_tier
from policies.price_set import PriceSet
from policies.prices import KINDS, UNIT, Prices
from policies.usage import Usage

COLUMNS: Final = (
    "tokens_of",
    "tokens",
    "wholesale_microusd_per_mtok",
    "wholesale_picousd",
    "retail_microusd_per_mtok",
    "retail_picousd",
)
WORDS: Final = {
    "input": "Input",
    "audio_input": "Sound in the input",
    "image_input": "Pictures in the input",
    "cache_write": "Input written to the cache",
    "cache_write_1h": "Input written to the cache for an hour",
    "cached_input": "Input from the cache",
    "cached_audio_input": "Sound from the cache",
    "output": "Output",
    "reasoning": "Reasoning",
    "audio_output": "Sound in the output",
    "per_search": "Searches",
    "per_call": "The call",
}
_LIKE: Final = {
    "audio_input": "input",
    "image_input": "input",
    "cache_write_1h": "cache_write",
    "cached_audio_input": "cached_input",
    "reasoning": "output",
    "audio_output": "output",
}
"""Kinds that are shown as another one where both have the same price."""


@dataclass(frozen=True, slots=True)
class CallPrice:
    """The cost of a call at its prices. ``parts`` has the tokens by price; their sums are not rounded.

    With ``is_reported`` the provider's own cost counts, and no token has a price.
    """

    wholesale_nanousd: int
    retail_nanousd: int
    is_reported: bool
    parts: Table

    def is_recorded(self, call: Mapping[str, Any]) -> bool:
        """Return whether the ledger row has the same costs."""
        return (self.wholesale_nanousd, self.retail_nanousd) == (
            call["wholesale_nanousd"],
            call["retail_nanousd"],
        )


def price_call(call: Mapping[str, Any], prices: PriceSet) -> CallPrice:
    """Return what the call of a ledger row costs at ``prices``."""
    usage = Usage(**{name: call[name] for name in Usage.__struct_fields__})
    wholesale, retail = compute_call_costs_nanousd(usage, prices)
    if prices.cost == "reported" and usage.reported_nanousd is not None:
        return CallPrice(wholesale, retail, True, Table(COLUMNS, []))
    counts = count_billed(usage, prices.reasoning_beside)
    levels = zip(
        split_by_tier(counts, prices.wholesale, usage.service_tier),
        split_by_tier(counts, prices.retail, usage.service_tier),
        strict=True,
    )
    rows = [row for (level, part), (retail, _) in levels for row in _list_parts(part, level, retail)]
    return CallPrice(wholesale, retail, False, Table(COLUMNS, rows))


def _list_parts(part: Sequence[int], wholesale: Prices, retail: Prices) -> Iterator[tuple[str | int, ...]]:
    """Yield kind, number, and at both prices the price and the cost of each part of a call."""
    shown: dict[str, int] = {}
    for kind, count, price in zip(KINDS, part, wholesale.by_kind, strict=True):
        if count and (price or kind not in UNIT):
            like = _LIKE.get(kind, kind)
            name = like if wholesale.price_of(like) == price else kind
            shown[name] = shown.get(name, 0) + count
    for kind in WORDS:
        if count := shown.get(kind, 0):
            price, retail_price = wholesale.price_of(kind), retail.price_of(kind)
            yield kind, count, price, count * price, retail_price, count * retail_price
