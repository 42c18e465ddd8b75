"""The price of one call: its tokens at the prices of today, and what was recorded. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from addon.text.table import Table
from policies.model import Model, Usage
from policies.money import compute_costs_nanousd, count_billed, split_by_tier
from policies.prices import KINDS, UNIT, Prices

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
USAGE: Final = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "cache_write_tokens",
    *("cache_write_1h_tokens", "audio_input_tokens", "cached_audio_tokens", "image_input_tokens"),
    *("audio_output_tokens", "searches", "service_tier"),
)
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
class PriceOfToday:
    """The cost of a call at the prices of today. ``parts`` has the tokens by price; their sums are not rounded."""

    wholesale_nanousd: int
    retail_nanousd: int
    parts: Table

    def is_recorded(self, call: Mapping[str, Any]) -> bool:
        """Return whether the ledger row has the same costs."""
        return (self.wholesale_nanousd, self.retail_nanousd) == (
            call["wholesale_nanousd"],
            call["retail_nanousd"],
        )


def price_call(call: Mapping[str, Any], model: Model) -> PriceOfToday:
    """Return what the call of a ledger row costs at the prices of ``model``."""
    usage = Usage(**{name: call[name] for name in USAGE})
    beside = model.family.reasoning_beside_completion
    wholesale, retail = compute_costs_nanousd(usage, (model.wholesale, model.retail), beside)
    counts = count_billed(usage, beside)
    levels = zip(
        split_by_tier(counts, model.wholesale, usage.service_tier),
        split_by_tier(counts, model.retail, usage.service_tier),
        strict=True,
    )
    rows = [row for (level, part), (retail, _) in levels for row in _list_parts(part, level, retail)]
    return PriceOfToday(wholesale, retail, Table(COLUMNS, rows))


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
