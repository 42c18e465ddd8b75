"""``Prices``: all that a provider charges by for one model. Frozen and pure.

Each price is in micro-USD per million of what it counts: tokens, calls or searches. ``policies/money.py`` computes with
them. Source: docs/catalog.md, "Prices".
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final

KINDS: Final = (
    "input",
    "audio_input",
    "image_input",
    "cache_write",
    "cache_write_1h",
    "cached_input",
    "cached_audio_input",
    "output",
    "reasoning",
    "audio_output",
    "per_search",
    "per_call",
)
"""What has a price of its own, in the order of ``Prices.by_kind``. Those of the prompt are first, its end before its
beginning: a prompt begins with what was cached before."""

PROMPT_KINDS: Final = KINDS.index("output")
"""How many kinds are tokens of the prompt."""

UNIT: Final = MappingProxyType({"per_search": "searches", "per_call": "calls"})
"""What is counted where it is not tokens."""

MAX_SEARCHES: Final = 10
"""How many searches of one call are held for, where the catalog does not say."""

NORMAL_SERVICE_TIERS: Final = frozenset({"default", "standard", "auto", "on_demand"})
"""The names that providers give to the service that has the base prices."""

_SAME_SERVICE: Final = MappingProxyType({"fast": "priority", "priority": "fast"})
"""OpenAI renamed it, and answers with either name. Source: OpenAI, "Fast mode", 2026-07-30."""

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of one model, each in micro-USD per million.

    A price that is None is that of the nearest kind: cached audio has the price of cached input, all other input that
    of the input, and output that of the output. ``cache_write`` is for any term without a price of its own.

    | field | is |
    |---|---|
    | ``tiers`` | other prices for long prompts, by their bounds, ascending |
    | ``service_tiers`` | other prices by the service tier that an answer names; each has only its own tiers |
    | ``by_kind`` | the price of each of ``KINDS`` |
    | ``own_kinds`` | the kinds that have a price of their own, here or in a tier |
    | ``is_flat`` | nothing but the kind of a token decides its price |
    """

    input_microusd_per_mtok: int
    cached_input_microusd_per_mtok: int
    output_microusd_per_mtok: int
    cache_write_microusd_per_mtok: int | None = None
    cache_write_5m_microusd_per_mtok: int | None = None
    cache_write_1h_microusd_per_mtok: int | None = None
    reasoning_microusd_per_mtok: int | None = None
    audio_input_microusd_per_mtok: int | None = None
    cached_audio_input_microusd_per_mtok: int | None = None
    audio_output_microusd_per_mtok: int | None = None
    image_input_microusd_per_mtok: int | None = None
    per_call_microusd_per_m: int = 0
    per_search_microusd_per_m: int = 0
    tiers: tuple["Tier", ...] = ()
    service_tiers: Mapping[str, "Prices"] = _NONE
    by_kind: tuple[int, ...] = field(init=False, repr=False, compare=False)
    own_kinds: frozenset[str] = field(init=False, repr=False, compare=False)
    is_flat: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        plain, cached = self.input_microusd_per_mtok, self.cached_input_microusd_per_mtok
        output, written = self.output_microusd_per_mtok, self.cache_write_microusd_per_mtok
        short, long = self.cache_write_5m_microusd_per_mtok, self.cache_write_1h_microusd_per_mtok
        by_kind = (
            plain,
            _first(self.audio_input_microusd_per_mtok, plain),
            _first(self.image_input_microusd_per_mtok, plain),
            _first(short, written, plain),
            _first(long, written, short, plain),
            cached,
            _first(self.cached_audio_input_microusd_per_mtok, cached),
            output,
            _first(self.reasoning_microusd_per_mtok, output),
            _first(self.audio_output_microusd_per_mtok, output),
            self.per_search_microusd_per_m,
            self.per_call_microusd_per_m,
        )
        object.__setattr__(self, "by_kind", by_kind)
        inner = [tier.prices for tier in self.tiers] + list(self.service_tiers.values())
        stated = {kind for kind in KINDS if getattr(self, f"{kind}_microusd_per_mtok", None) is not None}
        object.__setattr__(self, "own_kinds", frozenset(stated).union(*[one.own_kinds for one in inner]))
        object.__setattr__(self, "is_flat", not self.tiers and not self.service_tiers)

    def price_of(self, kind: str) -> int:
        """Return the price of one of ``KINDS``."""
        return self.by_kind[KINDS.index(kind)]

    def find_service_tier(self, name: object) -> str | None:
        """Return the name under which the service tier ``name`` has prices here, None where it has none."""
        if not isinstance(name, str) or not self.service_tiers:
            return None
        names = (name, _SAME_SERVICE.get(name, name))
        return next((known for known in names if known in self.service_tiers), None)

    def of_service(self, name: str | None) -> "Prices":
        """Return the prices of the service tier that an answer named. Without prices of its own, it has the base's."""
        known = self.find_service_tier(name)
        return self if known is None else self.service_tiers[known]

    def levels(self, prompt_tokens: int) -> "list[Prices]":
        """Return these prices, and those of each tier that a prompt reaches."""
        return [self, *[tier.prices for tier in self.tiers if prompt_tokens > tier.above_prompt_tokens]]


@dataclass(frozen=True, slots=True)
class Tier:
    """The prices of prompts above a number of tokens, for the whole call, or for the tokens above and the answer."""

    above_prompt_tokens: int
    prices: Prices
    whole_call: bool = True


_STATED: Final = [one.name for one in fields(Prices) if "_microusd_per_" in one.name]
PRICE_FIELDS: Final = (_STATED[0], _STATED[2], _STATED[1], *_STATED[3:])
"""The fields of ``Prices`` that are prices, in the order of models.toml."""


def price_key(field_name: str) -> str:
    """Return the key of models.toml for a field of ``Prices``."""
    return f"{field_name.partition('_microusd_')[0]}_price_per_m"


def list_prices(prices: Prices) -> dict[str, int | None]:
    """Return every price by its key in models.toml. Those of a tier and of a service tier follow its name.

    None are only those that have always been listed. Of tiers, only what differs from the prices around them is there.
    """
    found = {price_key(name): getattr(prices, name) for name in PRICE_FIELDS}
    listed = {key: price for key, price in found.items() if price or key in _ALWAYS_LISTED}
    for place, inner in _inner_prices(prices):
        for key, price in list_prices(inner).items():
            if found.get(key) != price:
                listed[f"{place}.{key}"] = price
    return listed


_ALWAYS_LISTED: Final = frozenset(
    {"input_price_per_m", "cached_input_price_per_m", "output_price_per_m", "cache_write_price_per_m"}
)


def _inner_prices(prices: Prices) -> Iterator[tuple[str, Prices]]:
    for tier in prices.tiers:
        yield f"tiers[{tier.above_prompt_tokens}]", tier.prices
    for name, inner in prices.service_tiers.items():
        yield f"service_tiers.{name}", inner


def _first(*prices: int | None) -> int:
    return next(price for price in prices if price is not None)
