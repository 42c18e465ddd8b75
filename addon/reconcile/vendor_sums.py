"""``VendorSums``: what the lines of one group say together, and how far their costs are from our prices. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from addon.reconcile.export_line import KINDS, ExportLine, Tokens
from addon.reconcile.ledger_call import ModelPrices

PICOUSD_PER_NANOUSD: Final = 1_000


class PricePiece(NamedTuple):
    """By how much a part of the cost is above our price for the same tokens. ``is_tier`` names why."""

    excess_nanousd: int
    rounding_nanousd: int
    is_tier: bool


@dataclass(slots=True)
class VendorSums:
    """The lines of one group. Counts are taken from lines with a cost where these have some, else from the others."""

    lines: list[ExportLine] = field(default_factory=list)

    def add(self, line: ExportLine) -> None:
        """Add one line."""
        self.lines.append(line)

    @property
    def costs(self) -> list[ExportLine]:
        """The lines with a cost, but for tools."""
        return [line for line in self.lines if line.cost_nanousd is not None and not line.is_tool]

    @property
    def tools_nanousd(self) -> int:
        """The cost of searches and the like."""
        return sum(line.cost_nanousd or 0 for line in self.lines if line.is_tool)

    @property
    def has_cost(self) -> bool:
        """Whether any line has a cost."""
        return any(line.cost_nanousd is not None for line in self.lines)

    @property
    def cost_nanousd(self) -> int:
        """The cost of all lines."""
        return sum(line.cost_nanousd or 0 for line in self.lines)

    @property
    def rounding_nanousd(self) -> int:
        """By how much the vendor may have rounded, all in all."""
        return sum(line.rounding_nanousd for line in self.lines if line.cost_nanousd is not None)

    @property
    def requests(self) -> int | None:
        """The calls that the vendor counted, None where it counts none."""
        counted = [line.requests for line in self.lines if line.requests is not None]
        return sum(counted) if counted else None

    @property
    def tokens(self) -> Tokens | None:
        """The tokens that the vendor counted, None where it counts none."""
        counted = [line.tokens for line in self._counting if line.tokens is not None]
        return _sum(counted) if counted else None

    @property
    def splits_input(self) -> bool:
        """Whether the counts say which input was cached."""
        return all(line.splits_input for line in self._counting)

    @property
    def _counting(self) -> list[ExportLine]:
        of_costs = [line for line in self.lines if line.cost_nanousd is not None and line.tokens is not None]
        return of_costs or [line for line in self.lines if line.tokens is not None]

    def tier_cost_nanousd(self) -> int:
        """Return the cost of lines of a tier that is not the normal one."""
        return sum(line.cost_nanousd or 0 for line in self.costs if line.tier)


def compute_nanousd(tokens: Tokens, prices: Tokens) -> int:
    """Return the cost of tokens, rounded half up."""
    picousd = sum(count * price for count, price in zip(tokens, prices, strict=True))
    return (2 * picousd + PICOUSD_PER_NANOUSD) // (2 * PICOUSD_PER_NANOUSD)


def find_price_pieces(
    sums: VendorSums, prices: ModelPrices, ours: Tokens | None = None, *, may_mix: bool = False
) -> list[PricePiece]:
    """Return by how much each part of the cost differs from our prices, for the tokens that the vendor counted.

    Where its costs come without counts, they are joined with lines that have counts, or else with ``ours``. ``may_mix``
    says that the ledger has calls of a tier, which a line without a tier may have among others.
    """
    tiered = {
        kind for line in sums.lines if line.tier and line.cost_nanousd is None for kind in _kinds_of(line)
    }
    stated = [line for line in sums.costs if line.tokens is not None]
    pieces = [_piece([line], line.tokens or Tokens(), prices, tiered, may_mix=may_mix) for line in stated]
    bare = [line for line in sums.costs if line.tokens is None]
    if not bare:
        return pieces
    counts = (
        []
        if stated
        else [line for line in sums.lines if line.cost_nanousd is None and line.tokens is not None]
    )
    by_tier = ours is None and {line.tier for line in bare} == {line.tier for line in counts}
    return pieces + [
        _piece(costs, tokens, prices, () if by_tier else tiered, may_mix=may_mix)
        for costs, tokens in _join(bare, counts, ours, by_tier=by_tier)
    ]


def find_whole_piece(sums: VendorSums, tokens: Tokens, prices: ModelPrices, *, may_mix: bool) -> PricePiece:
    """Return by how much the whole cost differs from our prices for ``tokens``."""
    return _piece(sums.costs, tokens, prices, (), may_mix=may_mix)


def _join(
    costs: Sequence[ExportLine], counts: Sequence[ExportLine], ours: Tokens | None, *, by_tier: bool
) -> Iterator[tuple[Sequence[ExportLine], Tokens]]:
    """Yield costs with the tokens that they are for: by kind, also by tier where both have the same, or all at once."""
    if any(line.kind is None for line in costs):
        yield costs, ours or _sum(line.tokens or Tokens() for line in counts)
        return
    counted: Counter[tuple[str | None, str]] = Counter()
    for tier, tokens in [(None, ours)] if ours else [(line.tier, line.tokens or Tokens()) for line in counts]:
        for kind, count in zip(KINDS, tokens, strict=True):
            counted[tier if by_tier else None, kind] += count
    charged: dict[tuple[str | None, str], list[ExportLine]] = {
        place: [] for place, count in counted.items() if count
    }
    for line in costs:
        charged.setdefault((line.tier if by_tier else None, str(line.kind)), []).append(line)
    for (tier, kind), lines in charged.items():
        yield lines, Tokens.of_kind(kind, counted[tier, kind])


def _piece(
    lines: Sequence[ExportLine],
    tokens: Tokens,
    prices: ModelPrices,
    tiered: Iterable[str],
    *,
    may_mix: bool,
) -> PricePiece:
    cost = sum(line.cost_nanousd or 0 for line in lines)
    base = compute_nanousd(tokens, prices.base)
    rounding = sum(line.rounding_nanousd for line in lines) + 1
    kinds = {kind for kind, count in zip(KINDS, tokens, strict=True) if count}
    is_tier = any(line.tier for line in lines) or bool(kinds & set(tiered))
    for other in () if is_tier else prices.others:
        other_cost = compute_nanousd(tokens, other)
        is_tier = is_tier or abs(cost - other_cost) <= rounding
        is_tier = is_tier or (may_mix and min(base, other_cost) < cost < max(base, other_cost))
    return PricePiece(cost - base, rounding, is_tier)


def _kinds_of(line: ExportLine) -> set[str]:
    if line.kind or line.tokens is None:
        return {line.kind} if line.kind else set()
    return {kind for kind, count in zip(KINDS, line.tokens, strict=True) if count}


def _sum(tokens: Iterable[Tokens]) -> Tokens:
    total = Tokens()
    for one in tokens:
        total = total.plus(one)
    return total
