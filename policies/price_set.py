"""``PriceSet``: all that turned the counts of one call into its cost. Pure.

A ledger row names its set by a hash of the content, so its cost can be computed again after any change of prices.
Source: docs/ledger.md, "The table `prices`".
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, Literal, Self

from policies.prices import PRICE_FIELDS, Prices, Tier

ROUNDING: Final = 1
"""The version of the arithmetic: how counts are split by price, and where sums are rounded. A change of either needs
the next one, and the rows of the versions before it are then computed as before."""

HASH_DIGITS: Final = 32

_FIELDS: Final = {name.partition("_microusd_")[0]: name for name in PRICE_FIELDS}
_FREE_KINDS: Final = frozenset({"per_call", "per_search"})
"""Prices that are 0 unless they are stated."""


@dataclass(frozen=True)
class PriceSet:
    """The prices of one place and slug, and what else decides a cost.

    ``reasoning_beside`` is the family's ``reasoning_beside_completion``. With ``cost`` ``"reported"``, a cost that the
    provider reports is the wholesale cost.
    """

    wholesale: Prices
    retail: Prices
    markup_percent: Decimal
    cost: Literal["computed", "reported"] = "computed"
    reasoning_beside: bool = False

    @cached_property
    def content(self) -> str:
        """The set as JSON, always the same text for the same set. Prices are in micro-USD per million."""
        content = {
            "cost": self.cost,
            "markup_percent": f"{self.markup_percent.normalize():f}",
            "reasoning_beside": self.reasoning_beside,
            "retail": _write_prices(self.retail),
            "rounding": ROUNDING,
            "wholesale": _write_prices(self.wholesale),
        }
        return json.dumps(content, sort_keys=True, separators=(",", ":"))

    @cached_property
    def hash(self) -> str:
        """The name of the set in ledger rows."""
        return hash_content(self.content)

    @classmethod
    def parse(cls, content: str) -> Self:
        """Return the set that has this content. Raises ValueError."""
        try:
            found = json.loads(content)
            if found["rounding"] != ROUNDING:
                raise ValueError(f"version {found['rounding']} of the rounding is not known")
            markup_percent = Decimal(found["markup_percent"])
            is_valid = markup_percent.is_finite() and markup_percent >= 0
            is_valid &= found["cost"] in ("computed", "reported") and found["reasoning_beside"] in (
                True,
                False,
            )
            wholesale, retail = _read_prices(found["wholesale"]), _read_prices(found["retail"])
        except (TypeError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"it is no price set: {type(error).__name__}") from None
        if not is_valid:
            raise ValueError("it is no price set")
        return cls(wholesale, retail, markup_percent, found["cost"], found["reasoning_beside"])


def hash_content(content: str) -> str:
    """Return the name of a set with this content."""
    return sha256(content.encode(errors="replace")).hexdigest()[:HASH_DIGITS]


def _write_prices(prices: Prices) -> dict[str, Any]:
    """Return the prices that are stated, those of tiers included."""
    stated = {kind: getattr(prices, name) for kind, name in _FIELDS.items()}
    written: dict[str, Any] = {
        kind: price for kind, price in stated.items() if price or (price == 0 and kind not in _FREE_KINDS)
    }
    if prices.tiers:
        written["tiers"] = [
            {
                "above_prompt_tokens": tier.above_prompt_tokens,
                "whole_call": tier.whole_call,
                "prices": _write_prices(tier.prices),
            }
            for tier in prices.tiers
        ]
    if prices.service_tiers:
        written["service_tiers"] = {name: _write_prices(one) for name, one in prices.service_tiers.items()}
    return written


def _read_prices(written: Mapping[str, Any]) -> Prices:
    if unknown := written.keys() - _FIELDS.keys() - {"tiers", "service_tiers"}:
        raise ValueError(f"it is no price set of this version: {min(unknown)}")
    stated = {name: _read_count(written[kind]) for kind, name in _FIELDS.items() if kind in written}
    tiers = [
        Tier(_read_count(one["above_prompt_tokens"]), _read_prices(one["prices"]), bool(one["whole_call"]))
        for one in written.get("tiers", ())
    ]
    services = {name: _read_prices(one) for name, one in written.get("service_tiers", {}).items()}
    return Prices(**stated, tiers=tuple(tiers), service_tiers=MappingProxyType(services))


def _read_count(written: object) -> int:
    if not isinstance(written, int) or written < 0:
        raise ValueError("it is no price set: a price is no whole number")
    return written
