"""The price of one call: its tokens at the prices of today, and what was recorded. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from addon.text.table import Table
from policies.model import Model, Prices, Usage
from policies.money import compute_costs_nanousd, count_billed_tokens

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
    "cached_input": "Input from the cache",
    "cache_write": "Input written to the cache",
    "output": "Output",
}
USAGE: Final = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "cache_write_tokens",
)


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
    rows = [
        (
            kind,
            tokens,
            _price(model.wholesale, kind),
            tokens * _price(model.wholesale, kind),
            _price(model.retail, kind),
            tokens * _price(model.retail, kind),
        )
        for kind, tokens in asdict(count_billed_tokens(usage, beside)).items()
        if tokens
    ]
    return PriceOfToday(wholesale, retail, Table(COLUMNS, rows))


def _price(prices: Prices, kind: str) -> int:
    price: int | None = getattr(prices, f"{kind}_microusd_per_mtok")
    return prices.input_microusd_per_mtok if price is None else price
