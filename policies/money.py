"""Prices and costs as integers: they are parsed, marked up, summed and printed only here.

| value | unit |
|---|---|
| a price | micro-USD (10⁻⁶ USD) per million tokens |
| a cost | nano-USD (10⁻⁹ USD) |
| a part of a sum | pico-USD (10⁻¹² USD): the cost of one token at one micro-USD per million |

A sum is rounded half up once, at its end.
"""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from policies.model import Prices, Usage

# One dollar a token. A higher price is certainly a wrong decimal point.
MAX_PRICE_USD_PER_MTOK: Final = 1_000_000
# Below 2^53 nano-USD: scripts in Redis count in doubles, which are exact up to there.
MAX_CAP_USD: Final = 9_000_000
PICOUSD_PER_NANOUSD: Final = 1_000

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
    stated = {name: price for name, price in asdict(prices).items() if price is not None}
    return Prices(
        **{name: compute_retail_microusd_per_mtok(price, markup_percent) for name, price in stated.items()}
    )


def compute_costs_nanousd(usage: Usage, prices: Iterable[Prices], reasoning_beside: bool) -> list[int]:
    """Return the cost of one call at each of ``prices``. Each cost is rounded half up once.

    Prompt tokens that the provider reports as cached, or as written into its cache, have prices of their own. There are
    never more of them than the prompt has. A count that was not reported is 0. A negative count is no credit: it is 0.
    ``reasoning_beside`` is the family's ``reasoning_beside_completion``. Source: contract, "usage object".
    """
    prompt = max(usage.prompt_tokens or 0, 0)
    cached = min(max(usage.cached_tokens or 0, 0), prompt)
    written = min(max(usage.cache_write_tokens or 0, 0), prompt - cached)
    plain, output = prompt - cached - written, count_billable_output(usage, reasoning_beside)
    costs_nanousd = []
    for price in prices:
        picousd = plain * price.input_microusd_per_mtok + output * price.output_microusd_per_mtok
        if cached:
            picousd += cached * price.cached_input_microusd_per_mtok
        if written:
            picousd += written * _cache_write_price(price)
        costs_nanousd.append((2 * picousd + PICOUSD_PER_NANOUSD) // (2 * PICOUSD_PER_NANOUSD))
    return costs_nanousd


@dataclass(frozen=True, slots=True)
class BilledTokens:
    """The tokens of one call by the price that they have."""

    input: int
    cached_input: int
    cache_write: int
    output: int


_UNIT_PRICES: Final = (
    Prices(PICOUSD_PER_NANOUSD, 0, 0, 0),
    Prices(0, PICOUSD_PER_NANOUSD, 0, 0),
    Prices(0, 0, 0, PICOUSD_PER_NANOUSD),
    Prices(0, 0, PICOUSD_PER_NANOUSD, 0),
)
"""Prices at which each kind of token costs one nano-USD, and the others cost nothing."""


def count_billed_tokens(usage: Usage, reasoning_beside: bool) -> BilledTokens:
    """Return the tokens that ``compute_costs_nanousd`` counts at each price."""
    return BilledTokens(*compute_costs_nanousd(usage, _UNIT_PRICES, reasoning_beside))


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


def compute_highest_input_microusd_per_mtok(prices: Prices) -> int:
    """Return the highest price that a token of a prompt can have."""
    # A cache write without a price of its own has the input price.
    written = prices.cache_write_microusd_per_mtok or 0
    return max(prices.input_microusd_per_mtok, prices.cached_input_microusd_per_mtok, written)


def _cache_write_price(prices: Prices) -> int:
    written = prices.cache_write_microusd_per_mtok
    return prices.input_microusd_per_mtok if written is None else written


def _parse_usd(text: str, fraction_digits: int, limit_usd: int) -> int:
    """Return ``text`` USD × 10^fraction_digits, exactly, or raise ValueError."""
    if not isinstance(text, str):
        # A TOML float has already lost digits. Only a string is exact.
        raise ValueError('must be a string such as "0.15"')
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError('is not a plain decimal number such as "0.15"')
    if match["sign"] == "-":
        raise ValueError("is negative")
    fraction = match["fraction"] or ""
    if len(fraction) > fraction_digits:
        raise ValueError(f"has {len(fraction)} fractional digits; at most {fraction_digits} are possible")
    whole = match["whole"].lstrip("0") or "0"
    # Check the length first: Python raises an error of its own for integers of thousands of digits.
    if len(whole) <= len(str(limit_usd)):
        amount = int(whole + fraction.ljust(fraction_digits, "0"))
        if amount <= limit_usd * 10**fraction_digits:
            return amount
    raise ValueError(f"is too large; the limit is {limit_usd} USD")


def _divide_half_up(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)
