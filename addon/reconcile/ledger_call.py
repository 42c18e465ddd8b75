"""``LedgerCall``: what the comparison needs of a row of the ledger; ``CallSums``: the sums of many. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from addon.reconcile.export_line import NO_TOKENS, Tokens, name_tier
from policies.exchange import INTERRUPTED
from policies.money import count_billable_output
from policies.usage import Usage

RESENT: Final = "resent"
ESTIMATED: Final = "left stream estimated"
WAS_INTERRUPTED: Final = "interrupted"
ZERO: Final = "provider's zero"
FAILED: Final = "failed here"
FAILED_ATTEMPT: Final = "failed attempt"


class LedgerCall(NamedTuple):
    """The columns of the ledger that are read, by their names."""

    created_at: str
    duration_ms: int
    model_slug: str
    upstream_model_id: str
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    usage_source: str
    status: int
    error_code: str | None
    resends: int
    wholesale_nanousd: int
    reported_nanousd: int | None = None
    searches: int | None = None
    service_tier: str | None = None
    price_set: str | None = None
    platform_key: int | None = None


class FailedAttempt(NamedTuple):
    """An attempt that failed, and that its call's row does not have."""

    created_at: str
    upstream_model_id: str
    platform_key: int | None = None


@dataclass(frozen=True, slots=True)
class ModelPrices:
    """The wholesale prices of a model, in micro-USD per million tokens.

    ``others`` are the prices of its tiers, so that a unit price of the vendor's can be recognized as one of them.
    ``charges_tools``: the ledger's cost of a call may have more than tokens in it. Prompts above ``long_prompt_tokens``
    have other prices. ``search_picousd`` is the price of one search.
    """

    base: Tokens
    reasoning_beside: bool = False
    others: Sequence[Tokens] = ()
    charges_tools: bool = False
    long_prompt_tokens: int | None = None
    search_picousd: int = 0


@dataclass(slots=True)
class Suspect:
    """How many calls have one property that explains a difference, and what they cost here."""

    calls: int = 0
    cost_nanousd: int = 0

    def add(self, cost_nanousd: int, times: int = 1) -> None:
        """Count one call."""
        self.calls += times
        self.cost_nanousd += cost_nanousd * times


@dataclass(slots=True)
class CallSums:
    """The sums of the calls of one group.

    ``price_sets`` and ``slugs`` have how many calls name each. ``counted_calls`` have counts of the provider's,
    ``tier_calls`` have another tier. ``crossing_nanousd`` is the cost of calls that began here and ended on the next
    day, ``arriving_nanousd`` that of those from the day before.
    """

    calls: int = 0
    counted_calls: int = 0
    reported_calls: int = 0
    reported_nanousd: int = 0
    tier_calls: int = 0
    tokens: Tokens = NO_TOKENS
    cost_nanousd: int = 0
    largest_nanousd: int = 0
    crossing_nanousd: int = 0
    arriving_nanousd: int = 0
    suspects: dict[str, Suspect] = field(default_factory=dict)
    slugs: Counter[str] = field(default_factory=Counter)
    price_sets: Counter[str] = field(default_factory=Counter)

    def add(self, call: LedgerCall, prices: ModelPrices | None) -> None:
        """Count one call."""
        cost_nanousd = call.wholesale_nanousd
        self.calls += 1
        self.slugs[call.model_slug] += 1
        if call.price_set is not None:
            self.price_sets[call.price_set] += 1
        self.cost_nanousd += cost_nanousd
        self.tokens = self.tokens.plus(tokens_of(call, prices is not None and prices.reasoning_beside))
        if call.reported_nanousd is not None:
            self.reported_calls += 1
            self.reported_nanousd += call.reported_nanousd
        self.tier_calls += _has_tier(call, prices)
        if call.usage_source == "provider" and cost_nanousd:
            self.counted_calls += 1
            self.largest_nanousd = max(self.largest_nanousd, cost_nanousd)
        if property_ := _property_of(call):
            self.suspects.setdefault(property_, Suspect()).add(cost_nanousd)
        if call.resends:
            self.suspects.setdefault(RESENT, Suspect()).add(cost_nanousd, call.resends)

    def suspect(self, name: str) -> Suspect:
        """Return the calls with one property."""
        return self.suspects.get(name, Suspect())


def _has_tier(call: LedgerCall, prices: ModelPrices | None) -> bool:
    bound = prices.long_prompt_tokens if prices else None
    is_long = bound is not None and (call.prompt_tokens or 0) > bound
    return is_long or name_tier(call.service_tier) is not None


def _property_of(call: LedgerCall) -> str | None:
    if call.error_code == INTERRUPTED:
        return WAS_INTERRUPTED
    if call.usage_source == "estimated":
        return ESTIMATED
    if call.wholesale_nanousd:
        return None
    return ZERO if call.status < 400 else FAILED


def tokens_of(call: LedgerCall, reasoning_beside: bool) -> Tokens:
    """Return the counts of a call by what they cost, as ``policies.money`` counts them."""
    prompt = max(call.prompt_tokens or 0, 0)
    cached = min(max(call.cached_tokens or 0, 0), prompt)
    written = min(max(call.cache_write_tokens or 0, 0), prompt - cached)
    usage = Usage(completion_tokens=call.completion_tokens, reasoning_tokens=call.reasoning_tokens)
    return Tokens(prompt - cached - written, cached, written, count_billable_output(usage, reasoning_beside))
