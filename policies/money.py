"""Prices and costs as integers: they are parsed, marked up, summed and printed only here.

| value | unit |
|---|---|
| a price | micro-USD (10⁻⁶ USD) per million tokens, calls or searches |
| a cost | nano-USD (10⁻⁹ USD) |
| a part of a sum | pico-USD (10⁻¹² USD): the cost of one token at one micro-USD per million |

A sum is rounded half up once, at its end.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from operator import mul
from types import MappingProxyType
from typing import Final, NamedTuple

from policies.price_set import PriceSet
from policies.prices import KINDS, MAX_SEARCHES, NORMAL_SERVICE_TIERS, PRICE_FIELDS, PROMPT_KINDS, Prices
from policies.usage import Usage

# One dollar a token. A higher price is certainly a wrong decimal point.
MAX_PRICE_USD_PER_MTOK: Final = 1_000_000
# Below 2^53 nano-USD: scripts in Redis count in doubles, which are exact up to there.
MAX_CAP_USD: Final = 9_000_000
PICOUSD_PER_NANOUSD: Final = 1_000
NANOUSD: Final = 10**9
"""The nano-USD of a USD."""

RARE_KINDS: Final = frozenset({"audio_input", "cached_audio_input", "image_input", "cache_write_1h"})
"""Tokens that a prompt has only where its request says so."""
_USUAL_KINDS: Final = [KINDS.index(kind) for kind in ("input", "cached_input", "cache_write")]
LIKELY_ESTIMATE_PERCENT: Final = 160
"""The estimate of a long English prompt, of its tokens. Source: docs/decisions/prompt-estimates-are-calibrated.md."""
_PER_SEARCH: Final = KINDS.index("per_search")
_PER_CALL: Final = KINDS.index("per_call")

_AMOUNT = re.compile(r"(?P<sign>[+-]?)(?P<whole>[0-9]+)(?:\.(?P<fraction>[0-9]+))?")


def parse_price_microusd_per_mtok(text: str) -> int:
    """Return a price written as USD per million tokens ("0.15") in micro-USD per million tokens (150000).

    Raises ValueError, with a reason for the operator, for anything but a plain non-negative decimal of at most six
    fractional digits. Source: contract, "Catalog row" (scaled to six fractional digits).
    """
    return _parse_usd(text, fraction_digits=6, limit_usd=MAX_PRICE_USD_PER_MTOK)


def parse_usd_nanousd(text: str) -> int:
    """Return an amount written as USD ("250", "20.5") in nano-USD.

    Raises ValueError, with a reason for the operator, also for more than nine fractional digits and for an amount above
    ``MAX_CAP_USD``.
    """
    return _parse_usd(text, fraction_digits=9, limit_usd=MAX_CAP_USD)


def format_nanousd(amount_nanousd: int) -> str:
    """Return an amount as USD with two decimals, or more where needed: 1500000000 → "1.50"."""
    whole, fraction = divmod(abs(amount_nanousd), 10**9)
    decimals = f"{fraction:09d}".rstrip("0").ljust(2, "0")
    return f"{'-' if amount_nanousd < 0 else ''}{whole}.{decimals}"


def format_nanousd_rounded(amount_nanousd: int) -> str:
    """Return an amount as USD with six decimals, rounded half up: 1234567890 → "1.234568"."""
    whole, _, decimals = format_nanousd(_divide_half_up(amount_nanousd, 1_000) * 1_000).partition(".")
    return f"{whole}.{decimals:0<6}"


def price_usd_per_mtok(price_microusd_per_mtok: int) -> Decimal:
    """Return a price as exact USD without trailing zeros: 156000 → 0.156."""
    return Decimal(price_microusd_per_mtok).scaleb(-6).normalize()


def compute_retail_microusd_per_mtok(wholesale: int, markup_percent: Decimal) -> int:
    """Return ``wholesale`` × (1 + markup), rounded half up to whole micro-USD.

    Raises ValueError for a markup that is negative or not a number. Source: contract, "Limits".
    """
    if not markup_percent.is_finite() or markup_percent < 0:
        raise ValueError(f"the markup must be a percentage of at least 0, not {markup_percent}")
    retail = wholesale * (1 + Fraction(markup_percent) / 100)
    return _divide_half_up(retail.numerator, retail.denominator)


def compute_retail_prices(prices: Prices, markup_percent: Decimal) -> Prices:
    """Return wholesale ``prices``, each with the markup."""
    stated = {name: price for name in PRICE_FIELDS if (price := getattr(prices, name)) is not None}
    marked_up = {
        name: compute_retail_microusd_per_mtok(price, markup_percent) for name, price in stated.items()
    }
    tiers = [
        replace(tier, prices=compute_retail_prices(tier.prices, markup_percent)) for tier in prices.tiers
    ]
    services = {
        name: compute_retail_prices(one, markup_percent) for name, one in prices.service_tiers.items()
    }
    return Prices(**marked_up, tiers=tuple(tiers), service_tiers=MappingProxyType(services))


def compute_costs_nanousd(usage: Usage, prices: Iterable[Prices], reasoning_beside: bool) -> list[int]:
    """Return the cost of one call at each of ``prices``. Each cost is rounded half up once.

    ``reasoning_beside`` is the family's ``reasoning_beside_completion``. Source: contract, "usage object".
    """
    counts = count_billed(usage, reasoning_beside)
    return [
        (2 * _compute_picousd(counts, one, usage.service_tier) + PICOUSD_PER_NANOUSD)
        // (2 * PICOUSD_PER_NANOUSD)
        for one in prices
    ]


def compute_call_costs_nanousd(usage: Usage, prices: PriceSet) -> list[int]:
    """Return the wholesale cost of a metered call and its retail cost: the reported one where the set says so."""
    reported = find_reported_costs(usage, prices.markup_percent) if prices.cost == "reported" else None
    return reported or compute_costs_nanousd(
        usage, (prices.wholesale, prices.retail), prices.reasoning_beside
    )


def find_reported_costs(usage: Usage, markup_percent: Decimal) -> list[int] | None:
    """Return the wholesale cost that the provider reports and the retail cost, None where it reports none."""
    reported = usage.reported_nanousd
    if reported is None:
        return None
    return [reported, compute_retail_microusd_per_mtok(reported, markup_percent)]


def count_billed(usage: Usage, reasoning_beside: bool) -> tuple[int, ...]:
    """Return what a call is billed for, as many as there are of each of ``KINDS``.

    A prompt never has more tokens of one kind than it has, nor an answer. A count that was not reported is 0. A
    negative count is no credit: it is 0. A call that used nothing is no call.
    """
    prompt = max(usage.prompt_tokens or 0, 0)
    cached = min(max(usage.cached_tokens or 0, 0), prompt)
    written = min(max(usage.cache_write_tokens or 0, 0), prompt - cached)
    plain, output = prompt - cached - written, count_billable_output(usage, reasoning_beside)
    searches = max(usage.searches or 0, 0)
    kept_long = min(max(usage.cache_write_1h_tokens or 0, 0), written)
    cached_audio = min(max(usage.cached_audio_tokens or 0, 0), cached)
    audio = min(max((usage.audio_input_tokens or 0) - cached_audio, 0), plain)
    image = min(max(usage.image_input_tokens or 0, 0), plain - audio)
    reasoning = min(max(usage.reasoning_tokens or 0, 0), output)
    spoken = min(max(usage.audio_output_tokens or 0, 0), output - reasoning)
    return (
        *(plain - audio - image, audio, image, written - kept_long, kept_long),
        *(cached - cached_audio, cached_audio, output - reasoning - spoken, reasoning, spoken),
        *(searches, 1 if prompt or output or searches else 0),
    )


def split_by_tier(
    counts: Sequence[int], prices: Prices, service_tier: str | None
) -> list[tuple[Prices, tuple[int, ...]]]:
    """Return the prices that a call with these counts meets, each with what has them.

    A tier of whole calls replaces those below it. One of the part above has the tokens at the end of the prompt, with
    what was cached first of all, and the answer, which follows the prompt.
    """
    prices = prices.of_service(service_tier)
    prompt_tokens = sum(counts[:PROMPT_KINDS])
    reached = [(prices, 0)]
    for tier in prices.tiers:
        if prompt_tokens > tier.above_prompt_tokens:
            above = (tier.prices, tier.above_prompt_tokens)
            reached = [above] if tier.whole_call else [*reached, above]
    parts, left = [], list(counts)
    for level, bound in reversed(reached[1:]):
        part = _take_from_end(left, prompt_tokens - bound)
        prompt_tokens = bound
        parts.append((level, part))
    return [*parts, (reached[0][0], tuple(left))]


def _take_from_end(left: list[int], tokens: int) -> tuple[int, ...]:
    """Take so many tokens of the prompt's end out of ``left``, with all that is not of the prompt. Return them."""
    part = []
    for kind, count in enumerate(left):
        taken = min(count, tokens) if kind < PROMPT_KINDS else count
        tokens -= taken if kind < PROMPT_KINDS else 0
        left[kind] -= taken
        part.append(taken)
    return tuple(part)


def _compute_picousd(counts: Sequence[int], prices: Prices, service_tier: str | None) -> int:
    if prices.is_flat:
        return sum(map(mul, counts, prices.by_kind))
    parts = split_by_tier(counts, prices, service_tier)
    return sum([sum(map(mul, part, level.by_kind)) for level, part in parts])


def count_billable_output(usage: Usage, reasoning_beside: bool) -> int:
    """Return the tokens at the output price: the completion, and reasoning that is not part of it.

    Gemini's compatible endpoint counts such reasoning without reporting it, and Gemini leaves out a completion of zero.
    Their totals include both. So the total minus the prompt is the output there.
    """
    output = max(usage.completion_tokens or 0, 0)
    if reasoning_beside:
        output += max(usage.reasoning_tokens or 0, 0)
    if usage.completion_tokens is None or (reasoning_beside and usage.reasoning_tokens is None):
        return max(output, max(usage.total_tokens or 0, 0) - max(usage.prompt_tokens or 0, 0))
    return output


def limit_estimate(prompt_tokens: int, prices: Prices) -> int:
    """Return an estimate of a prompt, but not above the bound of a tier that only a too high estimate reaches.

    So nobody pays for a tier that the prompt has likely not met. Source: docs/limits.md, "Calls that end early".
    """
    likely_tokens = prompt_tokens * 100 // LIKELY_ESTIMATE_PERCENT
    passed_wrongly = (
        tier.above_prompt_tokens for tier in prices.tiers if likely_tokens <= tier.above_prompt_tokens
    )
    return min([prompt_tokens, *passed_wrongly])


class DearestPrices(NamedTuple):
    """The highest prices that a call can meet: of a token of its prompt, of one of its answer, and of it as a call."""

    input_microusd_per_mtok: int
    output_microusd_per_mtok: int
    call_microusd_per_m: int


def find_dearest(
    prices: Prices,
    prompt_tokens: int,
    service_tier: str | None = None,
    rare_kinds: Iterable[str] = RARE_KINDS,
    max_searches: int = MAX_SEARCHES,
) -> DearestPrices:
    """Return the highest prices that a call can meet whose prompt has at most ``prompt_tokens``.

    ``service_tier`` is the one that is asked for. The provider may serve a call at the base prices instead, and one
    that asks for none at any tier that has prices. ``rare_kinds`` are those of ``RARE_KINDS`` that the prompt may have.
    ``max_searches`` is how many searches the provider may charge for.
    """
    asked = prices.find_service_tier(service_tier)
    if asked is not None:
        services = [prices, prices.service_tiers[asked]]
    elif service_tier in NORMAL_SERVICE_TIERS - {"auto"}:
        services = [prices]
    else:
        services = [prices, *prices.service_tiers.values()]
    levels = [level for service in services for level in service.levels(prompt_tokens)]
    kinds = [*_USUAL_KINDS, *map(KINDS.index, rare_kinds)]
    return DearestPrices(
        max([level.by_kind[kind] for level in levels for kind in kinds]),
        max([price for level in levels for price in level.by_kind[PROMPT_KINDS:_PER_SEARCH]]),
        max([max_searches * level.by_kind[_PER_SEARCH] + level.by_kind[_PER_CALL] for level in levels]),
    )


def _parse_usd(text: str, fraction_digits: int, limit_usd: int) -> int:
    """Return ``text`` USD × 10^fraction_digits, exactly, or raise ValueError."""
    if not isinstance(text, str):
        # A TOML float has already lost digits. Only a string is exact.
        raise ValueError('must be a string such as "0.15"')
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError('is not a plain decimal number such as "0.15"')
    if match["sign"] == "-":
        raise ValueError("is negative: write 0 or more")
    fraction = match["fraction"] or ""
    if len(fraction) > fraction_digits:
        raise ValueError(
            f"has {len(fraction)} fractional digits; at most {fraction_digits} are possible: round it"
        )
    whole = match["whole"].lstrip("0") or "0"
    # Check the length first: Python raises an error of its own for integers of thousands of digits.
    if len(whole) <= len(str(limit_usd)):
        amount = int(whole + fraction.ljust(fraction_digits, "0"))
        if amount <= limit_usd * 10**fraction_digits:
            return amount
    raise ValueError(f"is too large; the limit is {limit_usd} USD: check the decimal point")


def _divide_half_up(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)
