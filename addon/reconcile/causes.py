"""``explain_group``: names the causes of a difference, with amounts that sum to it. Pure.

A difference has a part by quantity, at our prices, and a part by price, for the tokens that the vendor counted. Each
part is given to causes in order. A cause gets no more than what the calls that prove it can be worth. What is left is
unknown.
"""

from dataclasses import dataclass
from typing import Final

from addon.reconcile.export_line import Tokens
from addon.reconcile.ledger_call import (
    ESTIMATED,
    FAILED,
    FAILED_ATTEMPT,
    RESENT,
    WAS_INTERRUPTED,
    ZERO,
    CallSums,
    ModelPrices,
)
from addon.reconcile.vendor_sums import (
    PricePiece,
    VendorSums,
    compute_nanousd,
    find_price_pieces,
    find_whole_piece,
)

OTHER_KIND: Final = "tokens of another kind"
END_OF_DAY: Final = "end of the day"
WRONG_TIER: Final = "wrong tier"
STALE_PRICE: Final = "stale price"
TOOLS: Final = "searches and tools"
ROUNDING: Final = "rounding"
OUTSIDE: Final = "did not pass the gateway"
MISSING: Final = "not in the export"
UNKNOWN: Final = "unknown"

CAUSES: Final = (
    *(
        RESENT,
        ESTIMATED,
        WAS_INTERRUPTED,
        ZERO,
        FAILED,
        FAILED_ATTEMPT,
        OTHER_KIND,
        END_OF_DAY,
        WRONG_TIER,
        STALE_PRICE,
        TOOLS,
    ),
    *(ROUNDING, OUTSIDE, MISSING, UNKNOWN),
)
"""All causes, in the order in which they are shown."""


@dataclass(slots=True)
class _Difference:
    """A difference that is being explained: what is left of it, and the amount of each cause."""

    left: int
    amounts: dict[str, int]

    def give(self, cause: str, amount: int) -> None:
        """Give an amount to a cause, whatever is left."""
        if amount:
            self.amounts[cause] = self.amounts.get(cause, 0) + amount
            self.left -= amount

    def take(self, cause: str, part: int, most: int, least: int = 0) -> int:
        """Give as much of ``part`` to a cause as lies between ``-least`` and ``most``. Return the rest of the part."""
        amount = max(-least, min(part, most))
        self.give(cause, amount)
        return part - amount


def explain_group(
    theirs: VendorSums, ours: CallSums, prices: ModelPrices | None, largest_nanousd: int
) -> dict[str, int]:
    """Return the amount of each cause, in nano-USD; they sum to their cost less ours.

    ``largest_nanousd`` is the cost of the largest call of the model that was counted, 0 where there is none.
    """
    found = _Difference(value_of(theirs, ours, prices) - ours.cost_nanousd, {})
    tokens = _their_tokens(theirs, ours)
    if not theirs.lines:
        _give_missing(found, ours)
    elif not ours.calls:
        _give_outside(found, theirs, ours, largest_nanousd)
    elif _is_as_reported(theirs, ours):
        found.give(WRONG_TIER if theirs.tier_cost_nanousd() else STALE_PRICE, found.left)
    elif tokens is not None and prices is not None:
        _explain_counted(found, theirs, ours, tokens, prices, largest_nanousd)
    else:
        _explain_amount(found, theirs, ours, tokens, prices, largest_nanousd)
    slack = theirs.rounding_nanousd + len(theirs.lines) + ours.calls + 1
    found.give(ROUNDING if abs(found.left) <= slack else UNKNOWN, found.left)
    return {cause: found.amounts[cause] for cause in CAUSES if found.amounts.get(cause)}


def _is_as_reported(theirs: VendorSums, ours: CallSums) -> bool:
    """Return whether each call has a reported cost, and these sum to the vendor's: then only our price differs."""
    slack = theirs.rounding_nanousd + ours.calls
    is_same = abs(theirs.cost_nanousd - ours.reported_nanousd) <= slack
    return (
        theirs.has_cost
        and ours.reported_calls == ours.calls
        and is_same
        and ours.cost_nanousd != ours.reported_nanousd
    )


def value_of(theirs: VendorSums, ours: CallSums, prices: ModelPrices | None) -> int:
    """Return the cost of the vendor's lines. Lines without any cost are valued at our prices."""
    if theirs.has_cost or not theirs.lines:
        return theirs.cost_nanousd
    tokens = _their_tokens(theirs, ours)
    if tokens is None or prices is None:
        return ours.cost_nanousd
    return ours.cost_nanousd + compute_nanousd(tokens.plus(ours.tokens, -1), prices.base)


def is_valued(theirs: VendorSums, ours: CallSums, prices: ModelPrices | None) -> bool:
    """Return whether the lines have a cost, or a price for their tokens is known, or they have the ledger's tokens."""
    tokens = _their_tokens(theirs, ours)
    return theirs.has_cost or prices is not None or tokens in (None, ours.tokens)


def _their_tokens(theirs: VendorSums, ours: CallSums) -> Tokens | None:
    """Return the vendor's counts. Where it does not say what was cached, that is as in the ledger."""
    tokens = theirs.tokens
    if tokens is None or theirs.splits_input:
        return tokens
    cached = min(ours.tokens.cached_input, tokens.input)
    written = min(ours.tokens.cache_write, tokens.input - cached)
    return Tokens(tokens.input - cached - written, cached, written, tokens.output)


def _give_missing(found: _Difference, ours: CallSums) -> None:
    rest = found.take(END_OF_DAY, found.left, 0, ours.crossing_nanousd)
    found.give(MISSING, rest)


def _give_outside(found: _Difference, theirs: VendorSums, ours: CallSums, largest_nanousd: int) -> None:
    # Where the vendor's searches have no model, those of the ledger are here, and no call is.
    found.give(TOOLS, theirs.tools_nanousd - ours.cost_nanousd)
    rest = found.take(END_OF_DAY, found.left, ours.arriving_nanousd)
    attempts = ours.suspect(FAILED_ATTEMPT).calls
    rest = found.take(FAILED_ATTEMPT, rest, attempts * (largest_nanousd or abs(rest)))
    if rest > 0:
        found.give(OUTSIDE, rest)


def _explain_counted(
    found: _Difference,
    theirs: VendorSums,
    ours: CallSums,
    tokens: Tokens,
    prices: ModelPrices,
    largest_nanousd: int,
) -> None:
    """Explain a difference by quantity and by price."""
    quantity = compute_nanousd(tokens.plus(ours.tokens, -1), prices.base)
    has_same_total = tokens.prompt == ours.tokens.prompt and tokens.output == ours.tokens.output
    if has_same_total:
        found.give(OTHER_KIND, quantity)
    else:
        rest = _take_calls(found, quantity, theirs, ours, largest_nanousd)
        if rest > 0 and _has_more_calls(theirs, ours):
            found.give(OUTSIDE, rest)
        elif abs(rest) > theirs.rounding_nanousd + ours.calls + 1:
            found.give(UNKNOWN, rest)
    if theirs.has_cost:
        if theirs.splits_input:
            pieces = find_price_pieces(theirs, prices, may_mix=ours.tier_calls > 0)
        else:
            pieces = [find_whole_piece(theirs, tokens, prices, may_mix=ours.tier_calls > 0)]
        _give_prices(found, theirs, ours, pieces, prices)


def _explain_amount(
    found: _Difference,
    theirs: VendorSums,
    ours: CallSums,
    tokens: Tokens | None,
    prices: ModelPrices | None,
    largest_nanousd: int,
) -> None:
    """Explain a difference where the vendor's tokens or our prices are not known."""
    found.give(TOOLS, theirs.tools_nanousd)
    if tokens is not None and tokens == ours.tokens:
        found.give(WRONG_TIER if theirs.tier_cost_nanousd() else STALE_PRICE, found.left)
        return
    if prices is not None and ours.tokens != Tokens():
        pieces = find_price_pieces(theirs, prices, ours.tokens, may_mix=ours.tier_calls > 0)
        if _prove_same_calls(pieces):
            found.give(TOOLS, -theirs.tools_nanousd)
            _give_prices(found, theirs, ours, pieces, prices)
            return
    if abs(found.left) <= theirs.rounding_nanousd + ours.calls:
        return
    rest = _take_calls(found, found.left, theirs, ours, largest_nanousd)
    if all(line.kind is None for line in theirs.costs):
        # With costs by kind, a tier would have shown itself above: the costs of other kinds would be ours.
        rest = found.take(WRONG_TIER, rest, theirs.tier_cost_nanousd(), theirs.tier_cost_nanousd())
    if rest > 0 and theirs.requests is not None and _has_more_calls(theirs, ours):
        found.give(OUTSIDE, rest)


def _prove_same_calls(pieces: list[PricePiece]) -> bool:
    """Return whether the cost of one kind of token is ours, and that of another is not: then prices differ."""
    same = [abs(piece.excess_nanousd) <= piece.rounding_nanousd for piece in pieces]
    return len(pieces) > 1 and any(same)


def _take_calls(
    found: _Difference, part: int, theirs: VendorSums, ours: CallSums, largest_nanousd: int
) -> int:
    """Give a part by quantity to calls that the vendor may have counted otherwise. Return the rest."""
    most = largest_nanousd or abs(part)
    part = found.take(RESENT, part, _resent_nanousd(theirs, ours))
    left = ours.suspect(ESTIMATED)
    part = found.take(ESTIMATED, part, max(left.cost_nanousd, left.calls * most), left.cost_nanousd)
    for cause in (WAS_INTERRUPTED, ZERO, FAILED, FAILED_ATTEMPT):
        part = found.take(cause, part, ours.suspect(cause).calls * most)
    return found.take(END_OF_DAY, part, ours.arriving_nanousd, ours.crossing_nanousd)


def _resent_nanousd(theirs: VendorSums, ours: CallSums) -> int:
    """Return what requests that were sent again may have cost once more. The vendor's count of calls bounds it."""
    resent = ours.suspect(RESENT)
    if theirs.requests is None or not resent.calls:
        return resent.cost_nanousd
    more = min(max(theirs.requests - ours.counted_calls, 0), resent.calls)
    return resent.cost_nanousd * more // resent.calls


def _has_more_calls(theirs: VendorSums, ours: CallSums) -> bool:
    """Return whether the vendor counted more calls than the ledger explains. Without a count, more tokens prove it."""
    if theirs.requests is None:
        return True
    more = ours.suspect(RESENT).calls + ours.suspect(FAILED_ATTEMPT).calls
    return theirs.requests > ours.calls - ours.suspect(FAILED).calls + more


def _give_prices(
    found: _Difference, theirs: VendorSums, ours: CallSums, pieces: list[PricePiece], prices: ModelPrices
) -> None:
    """Give the part by price to its causes. What the ledger has above the base prices is shared with the vendor's."""
    sums = {WRONG_TIER: 0, STALE_PRICE: 0, TOOLS: theirs.tools_nanousd, ROUNDING: 0}
    for piece in pieces:
        if abs(piece.excess_nanousd) <= piece.rounding_nanousd:
            sums[ROUNDING] += piece.excess_nanousd
        else:
            sums[WRONG_TIER if piece.is_tier else STALE_PRICE] += piece.excess_nanousd
    rest = ours.cost_nanousd - compute_nanousd(ours.tokens, prices.base)
    if abs(rest) <= ours.calls:
        sums[ROUNDING] -= rest
    else:
        for cause in (WRONG_TIER, STALE_PRICE, TOOLS):
            shared = max(min(rest, max(sums[cause], 0)), min(sums[cause], 0))
            sums[cause] -= shared
            rest -= shared
        sums[TOOLS if prices.charges_tools and rest > 0 else STALE_PRICE] -= rest
    for cause, amount in sums.items():
        found.give(cause, amount)
